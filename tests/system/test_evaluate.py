"""evaluate, translate --show/--trace/--force and sweep, as a new user runs them on models trained here."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recoversat import Translator, __version__
from recoversat.files.model_folder import resolve_model
from recoversat.measuring.quality.outputs import SIGNATURE_KEYS
from tests.system.conftest import Run

SHORT = ["--set", "train.save_every=50", "--set", "train.validate_every=1000", "--set", "train.batch_tokens=512"]
TINY = """
config:
  preset: iwslt16
  data: {tokenizer: bpe}
  model: {d_model: 16, d_hidden: 16, n_heads: 2, encoder_layers: 1, decoder_layers: 1, max_segments: 4}
  train: {segments: 4, steps: 100, batch_tokens: 256, save_every: 25, validate_every: 100, tensorboard: false,
          learning_rate: 2.0e-3, warmup: 20, workers: 0}
vary: {p: [1->0], q: [0.5, 1]}
"""


@pytest.fixture(scope="module")
def models(toy: Path, tmp_path_factory: pytest.TempPathFactory, recoversat: Run) -> Path:
    """A folder with a teacher (K = 1) and a student (K = 4) that make mistakes."""
    folder = tmp_path_factory.mktemp("models")
    for name, segments, steps in (("teacher", 1, 150), ("student", 4, 250)):
        sizes = ["--set", f"train.segments={segments}", "--set", f"train.steps={steps}"]
        config = ["--config", toy / "toy.yaml", "--device", "cpu", *SHORT, *sizes]
        recoversat("train", toy / "corpus", "--out", folder / name, *config)
    return folder


def evaluate(toy: Path, models: Path, out: Path) -> list[object]:
    systems = [f"at={models}/teacher", f"at beam={models}/teacher:beam=4", f"k4={models}/student"]
    systems += [f"k2={models}/student:segments=2", f"other={toy}/{{test}}.tgt"]
    tests = [f"{name}={toy}/{name}.src,{toy}/{name}.tgt" for name in ("test", "valid")]
    options = [part for text in systems for part in ("--system", text)]
    options += [part for text in tests for part in ("--test", text)]
    return ["evaluate", *options, "--at", "at", "--baseline", "at", "--samples", "20", "--device", "cpu", "--out", out]


@pytest.fixture(scope="module")
def report(toy: Path, models: Path, tmp_path_factory: pytest.TempPathFactory, recoversat: Run) -> Path:
    out = tmp_path_factory.mktemp("evaluated") / "report"
    printed = recoversat(*evaluate(toy, models, out), "--latency", "3", "--paper", "wmt16.en-ro")
    (out.parent / "printed").write_text(printed.stdout)
    return out


def records(report: Path) -> dict[tuple[str, str], dict[str, object]]:
    lines = [json.loads(line) for line in (report / "results.jsonl").read_text().splitlines()]
    return {(line["test_set"], line["system"]): line for line in lines}


def test_several_systems_on_several_test_sets_make_one_table(report: Path) -> None:
    printed = (report.parent / "printed").read_text()
    rows = [line.split("|")[1:3] for line in printed.split("\n\n")[1].splitlines()[2:]]
    names = ["at", "at beam", "k4", "k2", "other"]
    assert [[cell.strip() for cell in row] for row in rows] == [[t, n] for t in ("test", "valid") for n in names]
    assert "**Confidence" in printed
    for text in (printed, (report / "report.md").read_text(encoding="utf-8")):
        beside = text.split("**Beside what the paper prints for WMT16 En-Ro")[1]
        assert [line.split("|")[1].strip() for line in beside.splitlines() if "| valid" in line] == [
            f"ours: {name}" for name in names
        ]
        assert "32.59" in beside
    for name in ("report.md", "report.html", "results.jsonl", "plots/quality-speed-test.png"):
        assert (report / name).stat().st_size > 0, name


def test_the_signature_says_how_a_result_came_about(report: Path, models: Path) -> None:
    found = records(report)
    student = found["test", "k2"]["signature"]
    assert set(SIGNATURE_KEYS) <= set(student)
    corpus = json.loads((models / "student" / "run.json").read_text())["corpus"]
    expected = {"version": __version__, "data": corpus, "K": 2, "p": "1->0", "q": 0.5, "beam": None}
    expected |= {"engine": "torch", "precision": "fp32", "device": "cpu", "batch": 32}
    assert {key: student[key] for key in SIGNATURE_KEYS} == expected
    beams = [found["test", name]["signature"] for name in ("at", "at beam")]
    assert [(s["K"], s["beam"], s["p"], s["q"]) for s in beams] == [(1, 1, None, None), (1, 4, None, None)]
    assert found["test", "k4"]["signature"]["K"] == 4
    assert found["test", "other"]["bleu"]["value"] == pytest.approx(100)
    assert all(found["test", name]["latency_ms"] > 0 for name in ("at", "at beam", "k4", "k2"))


def test_scores_are_those_of_the_translate_command(report: Path, models: Path, toy: Path, recoversat: Run) -> None:
    """The saved text is what `translate` prints, and the sacrebleu command gives it the reported BLEU."""
    for name, options in (("k2", ["--segments", "2"]), ("at beam", ["--beam", "4"])):
        model = models / ("teacher" if name == "at beam" else "student")
        printed = recoversat("translate", "--model", model, toy / "test.src", *options, "--device", "cpu").stdout
        saved = report / "outputs" / "test" / f"{name}.txt"
        assert saved.read_text() == printed
        command = [sys.executable, "-m", "sacrebleu", str(toy / "test.tgt"), "-i", str(saved), "-b", "-w", "6"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert float(done.stdout) == pytest.approx(records(report)["test", name]["bleu"]["value"], abs=1e-6)


def test_a_second_evaluation_is_the_same_and_translates_nothing(
    report: Path, toy: Path, models: Path, recoversat: Run
) -> None:
    outputs = {path: path.stat().st_mtime_ns for path in (report / "outputs").rglob("*.*")}
    before = records(report)
    assert len(outputs) == 16
    recoversat(*evaluate(toy, models, report))
    assert {path: path.stat().st_mtime_ns for path in (report / "outputs").rglob("*.*")} == outputs
    assert records(report) == before


def test_a_wrong_system_is_one_clear_line(toy: Path, models: Path, tmp_path: Path, recoversat: Run) -> None:
    test = ["--test", f"t={toy}/test.src,{toy}/test.tgt", "--out", tmp_path / "r"]
    done = recoversat("evaluate", "--system", f"k9={models}/student:segments=9", *test, expect=2)
    assert "this model writes 1 to 4 segments" in done.stderr
    done = recoversat("evaluate", "--system", f"k4={models}/student:beam=4", *test, expect=2)
    assert "beam search writes one segment, this would be 4" in done.stderr
    done = recoversat("evaluate", "--system", f"at={models}/teachr", *test, expect=2)
    assert "teachr is neither a model folder nor a file of translations" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_segments_are_shown_traced_and_add_up_to_the_translation(
    models: Path, toy: Path, tmp_path: Path, recoversat: Run
) -> None:
    show = ["translate", "--model", models / "student", toy / "test.src", "--device", "cpu"]
    plain = recoversat(*show).stdout.splitlines()
    shown = recoversat(*show, "--show", "segments", "--trace", tmp_path / "trace.jsonl").stdout.splitlines()
    assert len(shown) == len(plain) == 100
    for line, text in zip(shown, plain, strict=True):
        segments = line.split("  ")
        assert [segment.split()[0] for segment in segments] == ["[1]", "[2]", "[3]", "[4]"]
        kept = [segment.split()[1:-1] for segment in segments if "~~" not in segment]
        assert " ".join(word for words in kept for word in words) == text
    trace = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    heads = [record for record in trace if record["type"] == "sentence"]
    assert [head["translation"] for head in heads] == plain
    for head in heads:
        steps = [r for r in trace if r["type"] == "step" and r["sentence"] == head["sentence"]]
        assert [step["step"] for step in steps] == list(range(1, head["steps"] + 1))
        for step in steps:
            for token in step["tokens"]:  # greedy: the best alternative is what was written
                assert token["piece"] == token["alternatives"][0]["piece"]
                assert 0 < token["probability"] <= 1


def test_forced_words_stand_where_they_were_put_and_the_rest_adapts(models: Path, toy: Path, recoversat: Run) -> None:
    line = (toy / "test.src").read_text().splitlines()[0]
    show = ["translate", "--model", models / "student", "--show", "segments", "--device", "cpu"]
    shown = recoversat(*show, "--force", "2:1=7 8", "--force", "4:1=9", stdin=f"{line}\n").stdout
    assert "[2] {7} {8} " in shown
    assert "[4] {9} " in shown or "[4] ~~{9} " in shown
    in_python = Translator(models / "student", device="cpu").translate([line], force=["2:1=7 8", "4:1=9"])[0]
    assert in_python.segments[1].pieces[:2] == ["7", "8"]
    done = recoversat(*show, "--force", "5:1=7", stdin=f"{line}\n", expect=2)
    assert "there is no segment 5, the translation has 4" in done.stderr
    done = recoversat(*show, "--force", "1:40=7", stdin=f"{line}\n", expect=2)
    assert "line 1: nothing can be forced at segment 1, position 40" in done.stderr


def test_a_sweep_is_continued_where_it_was_stopped_and_prints_the_papers_tables(
    toy: Path, models: Path, tmp_path: Path, recoversat: Run, one_thread: dict[str, str]
) -> None:
    (tmp_path / "sweep.yaml").write_text(TINY)
    out = tmp_path / "out"
    sweep = ["sweep", tmp_path / "sweep.yaml", "--corpus", toy / "corpus", "--at", models / "teacher"]
    sweep += ["--test", f"t={toy}/test.src,{toy}/test.tgt", "--device", "cpu", "--out", out]
    stopped = subprocess.Popen(
        [sys.executable, "-m", "recoversat", *map(str, sweep)], env=one_thread, stderr=subprocess.PIPE, text=True
    )
    while stopped.poll() is None and not (out / "runs" / "q=1" / "run.json").exists():
        time.sleep(0.02)
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate()
    assert stopped.returncode == 2
    assert "the same command continues from there" in said
    assert "p=1to0: done" in said
    assert "q=1: stopped" in said
    first = (out / "runs" / "p=1to0" / "log.jsonl").stat().st_mtime_ns

    done = recoversat(*sweep, "--jobs", "2")
    assert "2 runs, 1 of them trained already" in done.stderr
    assert "p=1to0: training" not in done.stderr
    assert (out / "runs" / "p=1to0" / "log.jsonl").stat().st_mtime_ns == first
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    results = {(row[1]): row for row in rows if row[:1] == ["t"] and len(row) > 8}
    assert list(results) == ["AT", "p=1to0", "q=1"]
    for label, paper, system in (("1->0", "29.90", "p=1to0"), ("0.5", "29.90", "p=1to0"), ("1", "29.13", "q=1")):
        (row,) = [row for row in rows if row[:1] == [label] and row[2] == paper]
        assert row[1] == results[system][3]  # BLEU
    assert resolve_model(out / "runs" / "q=1").name == "best"


def test_a_sweep_says_which_variants_failed_and_evaluates_the_others(
    toy: Path, tmp_path: Path, recoversat: Run
) -> None:
    (tmp_path / "sweep.yaml").write_text(TINY)
    out = tmp_path / "out"
    (out / "runs" / "q=1").mkdir(parents=True)
    (out / "runs" / "q=1" / "mine.txt").touch()
    sweep = ["sweep", tmp_path / "sweep.yaml", "--corpus", toy / "corpus", "--device", "cpu", "--out", out]
    done = recoversat(*sweep, expect=2)
    assert re.search(r"q=1 failed:\n    note: one decoder layer[^\n]*\n    error:", done.stderr)
    assert "is not a training run" in done.stderr
    assert "p=1to0" in done.stdout
    assert (out / "runs" / "q=1" / "mine.txt").exists()
