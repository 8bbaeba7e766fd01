"""The benchmark's arithmetic and its process, on made-up timings: no clock is trusted here."""

import io
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.engines.engine import Engine
from recoversat.errors import UserError
from recoversat.measuring import own
from recoversat.measuring.specs import SystemSpec
from recoversat.measuring.speed import measure as measuring
from recoversat.measuring.speed import untrained, worker
from recoversat.measuring.speed.fixed import FixedEngine, lives
from recoversat.measuring.speed.machine import busy_seconds, machine
from recoversat.measuring.speed.measure import Measured, Task, Timing, make_tasks, measure
from recoversat.measuring.speed.pool import Worker, WorkerError
from recoversat.measuring.speed.report import machine_lines, ratio_table, report_text, speed_plots, speed_table
from recoversat.measuring.speed.results import BenchResult, facts_of, growth_of, ratios_of, rows_of
from recoversat.measuring.speed.run import _notes_of_peers, _spread, bench_text, thread_counts
from recoversat.measuring.speed.untrained import build_untrained, random_weights, untrained_config
from recoversat.measuring.speed.worker import serve
from recoversat.measuring.system import PeerTranslation
from recoversat.pipeline.options import BenchOptions


@pytest.mark.parametrize(("length", "k"), [(25, 10), (25, 5), (7, 10), (1, 4), (50, 3), (10, 10)])
def test_lives_write_all_tokens_and_an_end_each(length: int, k: int) -> None:
    steps = lives(length, k)
    assert steps.sum() == length + k
    assert steps.min() >= 1
    assert steps.max() <= -(-length // k) + 2


def test_fixed_lengths_run_the_real_decoding(scripted: Any) -> None:
    translator = scripted({"the house": ["the EOS", "in DEL"]})
    translator.engine = FixedEngine(translator.engine, 4)
    [one] = translator.translate(["the house"])
    assert [segment.ending for segment in one.segments] == ["eos", "eos"]
    assert len(one.ids) == 4
    assert one.steps == 4  # 2 tokens of an even segment, one more, and its end


def test_every_way_to_write_is_told_when_segments_end() -> None:
    class Whole(Engine):
        max_segments = 10

        def decode(self, sources: Any, n_segments: Any, options: Any = None) -> Any:
            return options.most_steps(sources, n_segments).tolist(), options.lives.tolist()

        def search(self, sources: Any, beam: int, options: Any = None) -> Any:
            return options.most_steps(sources, np.ones(1)).tolist(), options.lives.tolist()

        def score(self, pairs: Any, n_segments: int = 1) -> Any:
            return pairs

    fixed: Any = FixedEngine(Whole(), 25)
    assert fixed.decode([[5], [6]], np.array([10, 10])) == ([5, 5], lives(25, 10).tolist())
    assert fixed.search([[5]], 4) == ([25], [25])
    assert fixed.score([([5], [6])]) == [([5], [6])]


def test_batches_are_whole_and_the_same_sentences() -> None:
    texts = ["a", "bbb", "cc", "dddd", "e"]
    one, two, eight = make_tasks(texts, [8, 1, 2])
    assert one.batches == [[text] for text in texts]
    assert two.batches == [["a", "cc"], ["bbb", "dddd"]]
    assert [len(batch) for batch in eight.batches] == [8]
    assert _spread(list("abcdef"), 3) == ["a", "c", "e"]
    assert _spread(["a"], 3) == ["a"]


class FakeWorker(Worker):
    """Answers at once with times from a script; None is a crash."""

    def __init__(self, name: str, threads: int, ms: list[float | None], **facts: Any) -> None:
        super().__init__(SystemSpec(name, "path", beam=facts.get("beam", 1)), "cpu", threads)
        self.ms, self.asked = ms, 0
        self.facts = {"engine": "fake", "precision": "int8", "device": "cpu", "bytes": 1_000_000, **facts}

    def ask(self, what: str, **details: Any) -> dict[str, Any]:
        ms = self.ms[min(self.asked, len(self.ms) - 1)]
        self.asked += 1
        if ms is None:
            self.error = "its process ended with code -9"
            raise WorkerError(self.error)
        n = len(details["batches"])
        state = {"peak_bytes": 5_000_000, "device_bytes": None, "cpu_s": 0.0}
        return {"ms": [ms * (1 + i) for i in range(n)], "tokens": 10 * n, "idle_cpu_s": 0.0, **state}


def workers() -> list[Worker]:
    return [
        FakeWorker("k10", 1, [10.0], family="recoversat", segments=10),
        FakeWorker("k10", 2, [8.0], family="recoversat", segments=10),
        FakeWorker("at", 1, [30.0], family="at", segments=1),
        FakeWorker("at", 2, [40.0], family="at", segments=1),
        FakeWorker("peer", 1, [16.0, None], family="ctranslate2", segments=1),
    ]


def result(rounds: int = 3) -> BenchResult:
    made = workers()
    measured = measure(made, [Task(1, [["a"], ["a b"]])], rounds)
    systems_, rows = [facts_of(worker) for worker in made], rows_of(measured)
    growth = growth_of(measured, {"k10": [1, 2], "at": [1, 2]})
    return BenchResult(systems_, rows, ratios_of(rows, systems_), growth, machine(), {}, ["a note"])


def test_rows_are_percentiles_of_batches_and_rates_of_rounds() -> None:
    row = result().rows[0]
    assert (row.system, row.threads, row.batch, row.calls) == ("k10", 1, 1, 6)
    assert row.p50_ms == pytest.approx(15)  # of 10, 20, 10, 20, 10, 20
    assert row.sentences_per_s == pytest.approx(2 / 0.030)
    assert row.tokens_per_s == pytest.approx(20 / 0.030)


def test_ratios_take_each_system_at_its_best_number_of_threads() -> None:
    ratios = {(one.system, one.over): one for one in result().ratios}
    assert set(ratios) == {("k10", "at"), ("k10", "peer")}
    over_at = ratios["k10", "at"]
    assert (over_at.threads, over_at.over_threads) == (2, 1)
    assert over_at.times == pytest.approx(45 / 12)
    assert over_at.times_at_best == pytest.approx(45 / 12)
    assert ratios["k10", "peer"].times == pytest.approx(24 / 12)


def test_a_system_that_dies_keeps_its_row_and_says_why() -> None:
    found = result()
    assert [row.calls for row in found.rows if row.system == "peer"] == [2]
    assert "its process ended with code -9" in report_text(found)
    assert [row.calls for row in found.rows if row.system == "at"] == [6, 6]


def test_tables_json_and_plots_say_the_same() -> None:
    found = result()
    found.bleu.update(k10=30.0, at=31.0)
    assert ["k10", "at", "3.75x (3.75x)"] in ratio_table(found).rows
    assert ["2*" for row in speed_table(found).rows if row[0] == "k10" and row[2] == "2*"] == ["2*"]
    text = report_text(found)
    assert "- a note" in text
    assert f"numpy {np.__version__}" in text
    loaded = json.loads(json.dumps(found.as_json()))
    assert loaded["format"] == "recoversat-bench-1"
    assert len(loaded["rows"]) == 5
    growth, quality = speed_plots(found)
    assert "k10: 8.0 ms at 1 tokens, 16.0 ms at 2" in growth.alt
    assert "at: 31.0 BLEU at 45.0 ms" in quality.alt
    assert "peer: 24.0 ms, without BLEU" in quality.alt
    assert [plot.name for plot in speed_plots(result())] == ["latency-by-length"]


def test_bleu_is_drawn_against_the_largest_batch_too() -> None:
    made = workers()
    measured = measure(made, [Task(size, [["a"] * size] * 2) for size in (1, 2, 4)], 1)
    found = BenchResult([facts_of(worker) for worker in made], rows_of(measured), [], [], machine(), {})
    assert speed_plots(found) == []
    found.bleu.update(k10=30.0, at=31.0)
    alone, batches = speed_plots(found)
    assert (alone.name, batches.name) == ("bleu-against-latency", "bleu-against-throughput")
    assert "k10: 30.0 BLEU at 12.0 ms" in alone.alt
    assert "k10: 30.0 BLEU at 3.00 ms" in batches.alt  # 8 + 16 ms for 8 sentences
    assert "in batches of 4" in batches.svg
    assert "peer" not in batches.alt  # it has died before


def test_what_must_be_known_of_times_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    marian = FakeWorker("m", 1, [1.0], family="pymarian")
    assert ["AVX2" in note for note in _notes_of_peers([facts_of(marian)])] == [True]
    assert _notes_of_peers([facts_of(worker) for worker in workers()]) == []
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for allowed, said in (({1, 3}, " 2 of 4 cores (pinned to 1, 3), "), ({0, 1, 2, 3}, " 4 cores (not pinned), ")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, allowed=allowed: allowed, raising=False)
        assert said in machine_lines(result())[0]


def test_the_command_prints_its_tables_as_latex_and_keeps_its_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.measuring.speed.run.bench_untrained", lambda *_, **__: result())
    done = CliRunner().invoke(app, ["bench", "--untrained", "wmt14", "--out", "unused", "--format", "latex"])
    assert done.exit_code == 0, done.output
    assert done.stdout.count(r"\toprule") == 3
    assert r"k10 & at & 3.75x (3.75x) \\" in done.stdout
    assert "\n% a note\n" in done.stdout
    assert "| " not in done.stdout.split("% a note")[0]


def test_others_begin_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(measuring, "_time", lambda timing: order.append(timing.worker.system.name))
    made = [FakeWorker(name, 1, [1.0]) for name in "abc"]
    measure(made, [Task(1, [["x"]]), Task(8, [["x"]])], 2)
    assert "".join(order) == "abcabc" + "bcabca"


def test_an_interrupted_run_keeps_whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = measuring._time, [0]

    def stop_in_round_two(timing: Timing) -> None:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        real(timing)

    monkeypatch.setattr(measuring, "_time", stop_in_round_two)
    made = [FakeWorker(name, 1, [1.0]) for name in "ab"]
    measured = measure(made, [Task(1, [["x"]])], 5)
    assert (measured.rounds, measured.interrupted) == (1, True)
    assert [len(timing.rounds) for timing in measured.timings] == [1, 1]


def test_what_other_processes_had_is_without_our_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = iter([100.0, 107.0])
    monkeypatch.setattr(measuring, "busy_seconds", lambda: next(worked))
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=iter([0.0, 10.0]).__next__))
    monkeypatch.setattr(measuring.psutil, "cpu_count", lambda: 2)
    worker = FakeWorker("a", 1, [1.0])

    def work(timing: Timing) -> None:
        timing.worker.cpu_s += 5.0

    monkeypatch.setattr(measuring, "_time", work)
    assert measure([worker], [Task(1, [["x"]])], 1).others == pytest.approx((7 - 5) / (10 * 2))


def test_growth_of_fixed_lengths_is_a_point_a_task() -> None:
    made = [FakeWorker("k10", 1, [4.0], family="recoversat")]
    timings = [Timing(made[0], Task(1, [["x"]], length, True), [[float(length)]]) for length in (25, 12)]
    points = growth_of(Measured(timings, 1, False, 0.0), {})
    assert [(point.length, point.ms) for point in points] == [(25, 25), (12, 12)]


class FakeSystem:
    """Writes everything in capitals."""

    facts = {"family": "at", "engine": "fake"}  # noqa: RUF012

    def translate(self, texts: list[str], batch: int, length: int | None = None) -> list[PeerTranslation]:
        if "crash" in texts:
            raise ZeroDivisionError("no")
        return [PeerTranslation(text.upper(), [7] * len(text)) for text in texts]

    def source_lengths(self, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]


def conversation(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    answers = io.StringIO()
    serve(iter([json.dumps(request) for request in requests]), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


LOAD = {"do": "load", "system": {"name": "a", "path": "p"}, "device": "cpu", "threads": 1, "first": "x", "length": None}


def test_a_worker_loads_times_and_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "load_system", lambda *_, **__: FakeSystem())
    batches = [["ab", "c"], ["d", "e"]]
    loaded, timed, fixed, failed, written, measured = conversation(
        LOAD,
        {"do": "time", "batches": batches, "length": None},
        {"do": "time", "batches": batches, "length": 9},
        {"do": "time", "batches": [["crash"]], "length": None},
        {"do": "write", "texts": ["ab", "c", "d"], "batch": 2},
        {"do": "measure", "texts": ["ab", "c"]},
    )
    assert loaded["facts"] == FakeSystem.facts
    assert loaded["peak_bytes"] > 1_000_000
    assert len(timed["ms"]) == 2
    assert timed["tokens"] == 5
    assert fixed["tokens"] == 36
    assert failed == {"error": "ZeroDivisionError: no"}
    assert written == {"texts": ["AB", "C", "D"]}
    assert measured == {"lengths": [2, 1]}


def test_an_untrained_model_writes_as_many_tokens_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "load_system", lambda *_, **__: FakeSystem())
    turn = {"do": "time", "batches": [["ab", "c"]], "length": None}
    system = {"name": "a", "path": "p", "writes": 20}
    _, timed, fixed = conversation(LOAD | {"system": system}, turn, turn | {"length": 9})
    assert (timed["tokens"], fixed["tokens"]) == (40, 18)


@pytest.mark.parametrize(("seconds", "first", "later"), [(0, 3, 1), (10, 11, 11)])
def test_a_worker_warms_up_for_as_long_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, seconds: float, first: int, later: int
) -> None:
    called: list[object] = []
    monkeypatch.setattr(own, "load_system", lambda *_, **__: FakeSystem())
    monkeypatch.setattr(FakeSystem, "translate", lambda *_: called.append(_) or [])
    clock = SimpleNamespace(perf_counter=lambda: len(called), process_time=time.process_time)  # each call: a second
    monkeypatch.setattr(worker, "time", clock)
    turn = {"do": "time", "batches": [["a"], ["b"], ["c"]], "length": None}
    conversation(LOAD | {"warm_up": seconds}, turn, turn)
    # a sentence when it is loaded; all batches of a new shape at least, later one, and those that are timed
    assert len(called) == 1 + (first + 3) + (later + 3)


def test_without_ctranslate2_its_row_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    (tmp_path / "model.bin").write_bytes(b"x")
    [answer] = conversation(LOAD | {"system": {"name": "peer", "path": str(tmp_path)}})
    assert answer == {"error": "CTranslate2 is not installed: pip install 'recoversat[peers]'"}
    config = untrained_config("d_model=32,d_hidden=32,n_heads=2,encoder_layers=1,decoder_layers=1", 64, [3])
    built = build_untrained(tmp_path, config, [3], "cpu")
    missing = {system.name: system.unavailable for system in built}
    assert missing["CTranslate2 greedy int8"] == "CTranslate2 is not installed: pip install 'recoversat[peers]'"
    assert missing["RecoverSAT K=3 int8"] is missing["our AT greedy int8"] is None
    worker = Worker(built[-1], "cpu", 1)
    worker.start("w1", 4)
    assert not worker.alive
    assert "not installed" in str(facts_of(worker).error)


def test_the_engine_in_c_verifies_lists_of_few_segments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(untrained, "native_engine", lambda: object)
    config = untrained_config("d_model=32,d_hidden=32,n_heads=2,encoder_layers=1,decoder_layers=1", 64, [3, 4])
    listed = {
        system.name: system.decode
        for system in build_untrained(tmp_path, config, [3, 4], "cpu")
        if "int8 shortlist" in system.name
    }
    unverified = {"verify_shortlist": "false"}
    assert listed == {
        "RecoverSAT K=3 int8 shortlist": {},
        "RecoverSAT K=4 int8 shortlist": {},
        "our AT greedy int8 shortlist": {},
        "RecoverSAT K=3 int8 shortlist unverified": unverified,
        "RecoverSAT K=4 int8 shortlist unverified": unverified,
        "our AT greedy int8 shortlist unverified": unverified,
    }


def test_untrained_models_have_the_names_of_real_ones() -> None:
    from recoversat.model.transformer import Transformer

    config = untrained_config("d_model=8,d_hidden=12,n_heads=2,encoder_layers=2,decoder_layers=1", 64, [3, 5]).model
    wanted = {name: tuple(value.shape) for name, value in Transformer(config).state_dict().items()}
    assert {name: array.shape for name, array in random_weights(config).items()} == wanted
    assert untrained_config("wmt14", 32_000, [10]).model.d_model == 512
    tiny = untrained_config("tiny", 14_000, [5, 10]).model
    assert (tiny.d_model, tiny.decoder_layers, tiny.vocab_size, tiny.max_segments) == (256, 2, 14_000, 10)


@pytest.mark.parametrize("text", ["nowhere", "d_model", "d_model=", ""])
def test_an_unknown_shape_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="name a preset"):
        untrained_config(text, 100, [10])
    with pytest.raises(UserError, match="did you mean d_model"):
        untrained_config("d_mode=3", 100, [10])


def test_what_cannot_work_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    (tmp_path / "b").write_text("x\ny\n")
    one = [SystemSpec("a", str(tmp_path))]
    with pytest.raises(UserError, match="must be aligned"):
        bench_text(one, tmp_path / "a", BenchOptions(tmp_path / "out", ref=tmp_path / "b"))
    with pytest.raises(UserError, match="exists already"):
        bench_text(one, tmp_path / "a", BenchOptions(tmp_path))
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(UserError, match="no text"):
        bench_text(one, tmp_path / "empty", BenchOptions(tmp_path / "out"))
    with pytest.raises(UserError, match="given twice"):
        bench_text([*one, *one], tmp_path / "a", BenchOptions(tmp_path / "out"))
    with pytest.raises(UserError, match="no such model folder"):
        bench_text([SystemSpec("b", "nowhere")], tmp_path / "a", BenchOptions(tmp_path / "out"))


def test_settings_have_sensible_defaults() -> None:
    out = Path("out")
    assert thread_counts(BenchOptions(out))[0] == 1
    assert thread_counts(BenchOptions(out, device="cuda")) == thread_counts(BenchOptions(out))[-1:]
    assert thread_counts(BenchOptions(out, threads=[3])) == [3]
    with pytest.raises(UserError, match="cpu or cuda"):
        BenchOptions(out, device="tpu")
    assert busy_seconds() > 0
    assert SimpleNamespace(**machine()).versions["recoversat"]
    assert len(untrained.sentences(3, 5, 100)) == 3
