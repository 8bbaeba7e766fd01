import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.decoding import stopping
from recoversat.decoding.stepping import FREE, Ints
from recoversat.decoding.stopping import StoppedError, stoppable
from recoversat.engines.engine import Options, StepEngine
from recoversat.engines.onnx import engine as onnx_engine
from recoversat.engines.onnx import graphs
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.onnx.rows import Found, ManyRows, OnnxStepper, RowRunner
from recoversat.engines.positions import sinusoids
from recoversat.errors import UserError
from recoversat.inference.exact import decode_exactly
from recoversat.model.attention import sinusoids as torch_sinusoids
from recoversat.model.transformer import Transformer
from recoversat.vocab import BOS
from tests.exported import write_exported

CONFIG = ModelConfig(d_model=32, d_hidden=64, n_heads=2, encoder_layers=1, decoder_layers=2, vocab_size=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    model = Transformer(CONFIG)
    model.load_state_dict({name: 5 * value for name, value in model.state_dict().items()})
    return write_exported(model, tmp_path_factory.mktemp("exported"))


def stepper_of(engine: OnnxEngine, batch: int, n_segments: int) -> OnnxStepper:
    return engine.start([[7, 8, 9]] * batch, np.full(batch, n_segments))


def test_new_rows_are_written_into_the_same_memory(folder: Path) -> None:
    stepper = stepper_of(OnnxEngine(folder, "int8", CONFIG), 2, 2)
    tokens, active = np.full((2, 2), BOS), np.ones((2, 2), dtype=bool)
    stepper.step(tokens, active)
    cache = stepper._cache
    before = cache.copy()
    stepper.step(tokens, active)  # room is left, so nothing may move
    assert stepper._cache is cache
    changed = np.flatnonzero((cache != before).any(axis=(0, 1, 2, 4)))
    assert changed.tolist() == [2, 3]


def test_hypotheses_of_a_sentence_change_places_without_copying_its_source(folder: Path) -> None:
    def stepped(which: list[int]) -> OnnxStepper:
        stepper = engine.start([[7, 8, 9], [9, 8]], np.array([1, 1]))
        stepper.keep(np.array([0, 0, 1, 1]))
        stepper.step(np.array([[BOS], [30], [40], [50]]), alive)
        stepper.keep(np.array(which))
        return stepper

    engine, alive, tokens = (
        OnnxEngine(folder, "int8", CONFIG),
        np.ones((4, 1), dtype=bool),
        np.array([[20], [21], [22], [23]]),
    )
    swapped = [1, 0, 3, 2]
    one, other = stepped(swapped), stepped([0, 1, 2, 3])
    memory = one._memory
    expected = other.step(tokens[swapped], alive).log_probs[swapped]
    # a row may be added up in another order where it stands elsewhere
    np.testing.assert_allclose(one.step(tokens, alive).log_probs, expected, atol=1e-4)
    assert np.diff(np.sort(expected.ravel())).min() > 1e-2
    assert one._memory is memory
    one.keep(np.array([2, 0]))
    assert one._memory.shape[1] == 2


def test_batches_of_one_engine_do_not_disturb_each_other(folder: Path) -> None:
    all_, first, last = [True] * 3, [True, True, False], [False, True, True]
    batches = [([7, 8, 9], (all_, first, last), [11, FREE, 12]), ([30, 31, 32], (all_, last, first), None)]

    def steps(
        engine: OnnxEngine, source: list[int], active: tuple[list[bool], ...], forced: list[int] | None
    ) -> Iterator[list[Any]]:
        stepper, tokens = engine.start([source], np.array([3])), np.full((1, 3), BOS)
        for number, flags in enumerate(active):
            choice = stepper.step(tokens, np.array([flags]), np.array([forced]) if forced and not number else None)
            tokens = choice.tokens
            yield [tokens.tolist(), choice.log_probs.tolist()]

    alone, engine = (
        [list(steps(OnnxEngine(folder, "int8", CONFIG), *batch)) for batch in batches],
        OnnxEngine(folder, "int8", CONFIG),
    )
    in_turn = list(zip(*(steps(engine, *batch) for batch in batches), strict=True))
    assert [list(each) for each in zip(*in_turn, strict=True)] == alone
    assert alone[0][0][0][0][::2] == [11, 12]


def test_ended_segments_take_no_place_in_the_cache(folder: Path) -> None:
    stepper = stepper_of(OnnxEngine(folder, "int8", CONFIG), 2, 3)
    tokens = np.full((2, 3), BOS)
    stepper.step(tokens, np.ones((2, 3), dtype=bool))
    choice = stepper.step(tokens, np.array([[False, True, False], [True, False, True]]))
    assert stepper._filled.tolist() == [4, 5]
    assert (choice.tokens[~np.array([[False, True, False], [True, False, True]])] == 0).all()


def test_the_cache_grows_seldom(folder: Path) -> None:
    stepper = stepper_of(OnnxEngine(folder, "int8", CONFIG), 1, 1)
    moves, cache = 0, stepper._cache
    for _ in range(300):
        stepper.step(np.array([[9]]), np.array([[True]]))
        moves += stepper._cache is not cache
        cache = stepper._cache
    assert moves <= 14  # log(300 / 5) / log(1.5) = 10.1, and the first steps
    assert stepper._filled.tolist() == [300]


def test_a_step_in_which_nobody_writes_changes_nothing(folder: Path) -> None:
    stepper = stepper_of(OnnxEngine(folder, "int8", CONFIG), 1, 2)
    choice = stepper.step(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=bool), n_best=2)
    assert not choice.tokens.any()
    assert choice.best_tokens is not None
    assert choice.best_tokens.shape == (1, 2, 2)
    assert stepper._filled.tolist() == [0]


def parts_of(engine: OnnxEngine, sources: list[list[int]], k: Ints, beam: int = 1) -> list[list[int]]:
    return engine._parts(sources, k, beam)


def test_little_memory_means_small_parts_and_the_same_translation(folder: Path) -> None:
    sources, k, limits = [[7, 8, 9], [10, 11], [12] * 9, [13]], np.full(4, 3), np.full(4, 6)
    free, bounded = OnnxEngine(folder, "int8", CONFIG), OnnxEngine(folder, "int8", CONFIG, max_memory=1)
    assert parts_of(free, sources, k) == [[0, 1, 2, 3]]
    assert parts_of(bounded, sources, k) == [[0], [1], [2], [3]]
    alone = [free.decode([source], k[:1], Options(limits=limits[:1]))[0] for source in sources]
    assert bounded.decode(sources, k, Options(limits=limits)) == alone
    assert bounded.search(sources, 3) == [free.search([source], 3)[0] for source in sources]


def test_the_bound_on_memory_grows_parts_with_it(folder: Path) -> None:
    sources, k = [[7] * 20] * 12, np.full(12, 10)

    def first_part(max_memory: int, beam: int = 1, k: Ints = k) -> int:
        return len(parts_of(OnnxEngine(folder, "int8", CONFIG, max_memory=max_memory), sources, k, beam)[0])

    scores = 2 * 3 * 10 * 256 * 4  # twice three copies of the scores of 10 rows, 200 tokens in blocks of 128
    kept = 2 * 2 * 2 * 32 * (20 + 2 * 40) * 4  # twice keys and values, layers, width, rows, bytes
    assert kept > scores
    assert [first_part(3 * kept), first_part(6 * kept), first_part(100 * kept)] == [3, 6, 12]
    one = np.ones(12, dtype=np.int64)
    assert first_part(6 * kept, beam=2, k=one) == first_part(12 * kept, beam=4, k=one)  # each hypothesis takes a place


def test_threads_share_a_batch_and_write_the_same(folder: Path) -> None:
    sources, k, limits = [[7, 8, 9], [10, 11], [12] * 9, [13], [14, 15]], np.array([3, 3, 1, 3, 1]), np.full(5, 6)
    one, two = (OnnxEngine(folder, "int8", CONFIG, threads) for threads in (1, 2))
    parts = parts_of(two, sources, k)
    assert parts == [[0, 1], [3], [2], [4]]
    written = two.decode(sources, k, Options(limits=limits))
    for part in parts:
        assert [written[i] for i in part] == one.decode(
            [sources[i] for i in part], k[part], Options(limits=limits[part])
        )
    assert parts_of(two, sources[:1], k[:1]) == [[0]]


PAIRS = [([7, 8, 9], [20, 21, 22]), ([10, 11], [23]), ([12] * 9, [24] * 30), ([13], []), ([14, 15], [25, 26])]


@pytest.mark.parametrize("threads", [1, 2])
def test_scores_come_in_the_order_of_their_pairs(folder: Path, threads: int) -> None:
    engine = OnnxEngine(folder, "int8", CONFIG, threads)
    together = engine.score(PAIRS * 5, 2)
    assert len(together) == 25
    for (_, target), one, again in zip(PAIRS, together, together[5:], strict=False):
        assert [token for segment in one.segments for token in segment[:-1]] == target
        assert one.segments == again.segments
    assert engine.score([]) == []
    with pytest.raises(UserError, match="pair 2: its source is empty"):
        engine.score([PAIRS[0], ([], [9])])


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note how targets go through the graph."""
    calls: list[str] = []

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: calls.append(name) or work(*args)

    monkeypatch.setattr(onnx_engine, "score_rows", noted("one pass", onnx_engine.score_rows))
    monkeypatch.setattr(OnnxStepper, "step", noted("step", OnnxStepper.step))
    return calls


def test_a_target_goes_through_the_graph_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = OnnxEngine(folder, "int8", CONFIG)
    calls = calls_of(monkeypatch)
    engine.score(PAIRS[:2], 2)
    assert calls == ["one pass"]


@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_encoded_is_not_encoded_again(folder: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = OnnxEngine(folder, "fp32", CONFIG, threads)
    sources, k = [[7, 8, 9], [10, 11], [12] * 9, [19, 17, 31]], np.array([3, 1, 3, 2])
    options, pairs = Options(limits=np.full(4, 6)), [([12] * 9, [24, 25]), ([10, 11], [23])]
    alone = [engine.decode([s], k[i : i + 1], options.of(np.array([i])))[0] for i, s in enumerate(sources)]
    scores = [engine.score([pair])[0] for pair in pairs]
    encoded = engine.encode(sources)
    assert encoded == sources
    monkeypatch.setattr(onnx_engine, "side_by_side", None)  # nobody reads ids any more
    assert [one.segments for one in engine.decode(encoded, k, options)] == [one.segments for one in alone]
    found = engine.score([(encoded[2], [24, 25]), (encoded[1], [23])])
    for one, other in zip(found, scores, strict=True):
        assert one.log_probs[0] == pytest.approx(other.log_probs[0], abs=1e-4)
    assert engine.encode([]) == []
    assert OnnxEngine(folder, "int8", CONFIG, max_memory=1).encode(sources) is sources


def test_a_target_too_long_for_the_memory_is_scored_step_by_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = 2 * 3 * 10 * 256 * 4  # of 10 rows
    engine = OnnxEngine(folder, "int8", CONFIG, max_memory=scores)
    calls = calls_of(monkeypatch)
    found = engine.score(PAIRS, 1)
    assert {"one pass", "step"} == set(calls)
    for one, other in zip(found, StepEngine.score(engine, PAIRS, 1), strict=True):
        assert one.segments == other.segments


def test_tokens_do_not_depend_on_whether_they_are_scored(folder: Path) -> None:
    engine, k, limits = OnnxEngine(folder, "int8", CONFIG), np.array([3, 1]), np.array([5, 5])
    scored = engine.decode([[7, 8, 9], [10, 11]], k, Options(limits=limits))
    unscored = engine.decode([[7, 8, 9], [10, 11]], k, Options(limits=limits, scores=False))
    assert [d.segments for d in unscored] == [d.segments for d in scored]
    assert [d.log_probs for d in unscored] == [[[], [], []], [[]]]
    assert all(log_probs for d in scored for log_probs in d.log_probs)


def test_scores_may_be_asked_for_at_any_step(folder: Path) -> None:
    always, sometimes = (stepper_of(OnnxEngine(folder, "int8", CONFIG), 2, 2) for _ in range(2))
    tokens, active = np.full((2, 2), BOS), np.ones((2, 2), dtype=bool)
    for n_best, scores in ((0, False), (0, True), (3, False), (0, False), (0, False), (0, True)):
        expected, got = always.step(tokens, active, None, n_best), sometimes.step(tokens, active, None, n_best, scores)
        np.testing.assert_array_equal(expected.tokens, got.tokens)
        np.testing.assert_array_equal(expected.log_probs * (scores or n_best > 0), got.log_probs)
        assert (got.best_tokens is None) is (n_best == 0)
        tokens, active = expected.tokens, active & np.array([[n_best == 0, True], [True, True]])


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_another_model_is_refused(folder: Path, precision: str) -> None:
    other = CONFIG.model_copy(update={"n_heads": 1})
    with pytest.raises(UserError, match=r"n_heads is 2, config\.json says 1"):
        OnnxEngine(folder, precision, other)


def test_graphs_of_int8_hold_no_weights(folder: Path) -> None:
    for name in ("encoder", "step"):
        with pytest.raises(Exception, match="External data path"):
            onnxruntime.InferenceSession(folder / f"onnx/int8/{name}.onnx")
    assert sum(path.stat().st_size for path in (folder / "onnx" / "int8").iterdir()) < 50_000


def test_a_processor_that_overflows_gets_exact_products(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    k, limits = np.array([3, 1]), np.array([5, 5])
    usual = OnnxEngine(folder, "int8", CONFIG).decode([[7, 8, 9], [10, 11]], k, Options(limits=limits))
    levels = []
    session = onnxruntime.InferenceSession

    def remember(path: str, options: onnxruntime.SessionOptions, **others: object) -> onnxruntime.InferenceSession:
        levels.append(options.graph_optimization_level)
        return session(path, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", remember)
    monkeypatch.setattr(graphs, "saturates", lambda folder: True)
    exact = OnnxEngine(folder, "int8", CONFIG).decode([[7, 8, 9], [10, 11]], k, Options(limits=limits))
    assert levels == [onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED] * 2
    assert [d.segments for d in exact] == [d.segments for d in usual]
    for one, other in zip(usual, exact, strict=True):
        np.testing.assert_allclose(np.concatenate(one.log_probs), np.concatenate(other.log_probs), atol=1e-3)


def test_wrong_sums_are_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Overflowing:
        def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            return [np.full((16, 64), 32 * 32767, dtype=np.float32)]

    assert graphs.saturates(folder / "onnx" / "int8") is (not has_vnni())
    monkeypatch.setattr(graphs, "_session", lambda *options, **others: Overflowing())
    assert graphs.saturates(folder / "onnx" / "int8") is True


def has_vnni() -> bool:
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text() if cpu.is_file() else "vnni"
    return "vnni" in flags or "avx" not in flags


def test_a_folder_without_graphs_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no ONNX graphs here \(.*\.onnx is missing\); run 'recoversat export'"):
        OnnxEngine(tmp_path, "fp32", CONFIG)


def test_positions_are_those_of_the_model() -> None:
    expected = torch_sinusoids(torch.arange(50), 278).numpy()
    np.testing.assert_allclose(sinusoids(50, 278), expected, atol=1e-5)


WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import json
from pathlib import Path

import numpy as np

from recoversat.config import ModelConfig
from recoversat.engines.engine import Options
from recoversat.engines.onnx.engine import OnnxEngine

engine = OnnxEngine(Path(sys.argv[1]), "int8", ModelConfig(**json.loads(sys.argv[2])))
k = np.array([3, 1])
print(json.dumps([d.segments for d in engine.decode([[7, 8, 9], [10, 11]], k, Options(limits=np.array([5, 5])))]))
"""


def test_runs_where_torch_and_onnx_are_absent(folder: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder), CONFIG.model_dump_json()]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    engine, k = OnnxEngine(folder, "int8", CONFIG), np.array([3, 1])
    here = engine.decode([[7, 8, 9], [10, 11]], k, Options(limits=np.array([5, 5])))
    assert json.loads(output) == [decoded.segments for decoded in here]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", ["decode", "search", "score", "encode", "exact"])
def test_whatever_an_engine_does_is_stopped_between_steps(
    folder: Path, what: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, runs = OnnxEngine(folder, "int8", CONFIG, threads), list[int]()
    sources, k = [[7, 8, 9, 10]] * 8, np.full(8, 3)
    options = Options(limits=np.full(8, 60))
    work: dict[str, Callable[[], object]] = {
        "decode": lambda: engine.decode(sources, k, options),
        "search": lambda: engine.search(sources, 3, options),
        "score": lambda: engine.score([(source, [20] * 60) for source in sources]),
        "encode": lambda: [engine.encode(sources) for _ in range(20)],
        "exact": lambda: decode_exactly(engine, sources[:1], k[:1], Options(limits=np.array([60]))),
    }
    real, encode, stops = RowRunner.run, engine._graphs.encoder.run, list[Event]()

    def counted() -> None:
        runs.append(1)
        if len(runs) > 2 and stops:  # what the threads that work are told to look at
            stops[-1].wait(60)

    def run(self: RowRunner, given: ManyRows, *others: Any, **more: Any) -> Found:
        counted()
        return real(self, given, *others, **more)

    def run_encoder(*arguments: Any) -> Any:
        counted()
        return encode(*arguments)

    class Noted(Event):
        def __init__(self) -> None:
            super().__init__()
            stops.append(self)

    monkeypatch.setattr(engine._graphs.encoder, "run", run_encoder)
    monkeypatch.setattr(onnx_engine, "_ROWS", 24)  # several parts
    monkeypatch.setattr(RowRunner, "run", run)
    work[what]()
    whole = len(runs)
    runs.clear()

    def check() -> None:
        if len(runs) >= 2:
            raise StoppedError

    monkeypatch.setattr(stopping, "Event", Noted)
    with pytest.raises(StoppedError), stoppable(check):
        work[what]()
    monkeypatch.setattr(stopping, "Event", Event)
    assert len(runs) <= (2 if threads == 1 else 2 + 2 * threads) < whole  # threads end the step they are in: two runs
    runs.clear()
    stops.clear()
    work[what]()
    assert len(runs) == whole
