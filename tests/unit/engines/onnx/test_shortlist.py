"""Lists: a step chooses from the pieces its sentence may hold, whatever the way of writing and the neighbours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.engine import Options
from recoversat.engines.onnx import graphs
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.onnx.shortlist import LISTED_STEP, Lists
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.errors import UserError
from recoversat.export.onnx import export_model
from recoversat.export.onnx_shortlist import add_listed_graphs
from recoversat.inference.exact import decode_exactly
from recoversat.measuring.speed.untrained import made_up_ranges
from recoversat.model.transformer import Transformer
from recoversat.vocab import BOS, DEL, EOS, NEVER_EMITTED
from tests.processors import needs_vnni

V = 1001
CONFIG = ModelConfig(d_model=32, d_hidden=48, n_heads=4, encoder_layers=1, decoder_layers=2, vocab_size=V)
COMMON = [EOS, DEL, *range(100, 220)]
SOURCES = [[300, 301, 302, 303], [400, 401], [500, 501, 502, 503, 504, 505]]


def table_of(likeliest: np.ndarray, common: list[int] = COMMON) -> Shortlist:
    marked = np.zeros((1, V), dtype=bool)
    marked[0, common] = True
    return Shortlist(likeliest, np.empty(0, dtype=np.int64), marked)


@pytest.fixture(scope="module", params=[pytest.param("int8", marks=needs_vnni), "fp32"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a model whose every source piece has 20 pieces of its own, from 600 on."""
    torch.manual_seed(1)
    weights = {name: 5 * value.numpy() for name, value in Transformer(CONFIG).state_dict().items()}
    out = tmp_path_factory.mktemp("onnx")
    [made] = export_model(weights, CONFIG, out, (request.param,), made_up_ranges(weights))
    add_listed_graphs(made)
    table_of(np.random.default_rng(1).integers(600, V, (V, 20))).save(out / TABLE)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> OnnxEngine:
    return OnnxEngine(folder, CONFIG)


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> OnnxEngine:
    """Load the same model as one who knows nothing of lists finds it."""
    other = tmp_path_factory.mktemp("plain") / folder.name
    other.mkdir()
    for name in ("encoder.onnx", "step.onnx", "probe.onnx", "weights.bin"):
        (other / name).write_bytes((folder / name).read_bytes())
    return OnnxEngine(other, CONFIG)


def own_list(engine: OnnxEngine, source: list[int]) -> set[int]:
    assert engine._lists
    return set(np.flatnonzero(engine._lists._table.members([source])[0]).tolist())


def written(decoded: Decoded) -> set[int]:
    return {token for segment in decoded.segments for token in segment}


def decode(engine: OnnxEngine, sources: list[list[int]], k: int, **options: object) -> list[Decoded]:
    limits, options = np.full(len(sources), 9), {"verified": False} | options
    return engine.decode(sources, np.full(len(sources), k), Options(limits=limits, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [1, 4])
def test_sentences_choose_from_their_own_lists(engine: OnnxEngine, plain: OnnxEngine, k: int) -> None:
    listed, whole = decode(engine, SOURCES, k, top_tokens=5), decode(plain, SOURCES, k)
    for source, one in zip(SOURCES, listed, strict=True):
        assert written(one) <= own_list(engine, source)
        others = {token for segment in one.top_tokens for best in segment for token, _ in best}
        assert others <= own_list(engine, source)
    assert any(not written(one) <= own_list(engine, source) for source, one in zip(SOURCES, whole, strict=True))


@pytest.mark.parametrize("k", [1, 4])
def test_neighbours_do_not_matter(engine: OnnxEngine, k: int) -> None:
    together, alone = decode(engine, SOURCES, k), [decode(engine, [source], k)[0] for source in SOURCES]
    assert [one.segments for one in together] == [one.segments for one in alone]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(np.concatenate(one.log_probs), np.concatenate(other.log_probs), atol=1e-4)


def test_a_listed_product_is_that_of_the_whole(engine: OnnxEngine, plain: OnnxEngine) -> None:
    """Put a piece in the place of the one the whole vocabulary chose: log-probabilities differ by a constant."""
    tokens, active = np.full((1, 4), BOS), np.ones((1, 4), dtype=bool)
    whole = plain.start(SOURCES[:1], np.array([4])).step(tokens, active, n_best=V)
    listed = engine.start(SOURCES[:1], np.array([4]), Options(verified=False)).step(tokens, active, n_best=9)
    assert whole.best_tokens is not None
    assert whole.best_log_probs is not None
    assert listed.best_tokens is not None
    assert listed.best_log_probs is not None
    mine = own_list(engine, SOURCES[0])
    for segment in range(4):
        known = dict(zip(whole.best_tokens[0, segment].tolist(), whole.best_log_probs[0, segment], strict=True))
        expected = [token for token in known if token in mine][:9]
        assert listed.best_tokens[0, segment].tolist() == expected
        apart = listed.best_log_probs[0, segment] - np.array([known[token] for token in expected])
        np.testing.assert_allclose(apart, apart[0], atol=1e-4)


@pytest.mark.parametrize("k", [1, 4])
def test_forced_pieces_are_written_and_no_others_let_in(engine: OnnxEngine, k: int) -> None:
    outside = next(i for i in range(600, V) if i not in own_list(engine, SOURCES[0]) | own_list(engine, SOURCES[1]))
    one, other = decode(engine, SOURCES[:2], k, forced=[{(0, 1): outside}, {}])
    assert one.segments[0][1] == outside
    assert outside not in written(other)


def test_a_beam_stays_in_the_list(engine: OnnxEngine, plain: OnnxEngine) -> None:
    found = engine.search(SOURCES, 3, Options(limits=np.full(3, 9), verified=False))
    alone = [engine.search([source], 3, Options(limits=np.full(1, 9), verified=False))[0] for source in SOURCES]
    assert [one.segments for one in found] == [one.segments for one in alone]
    for source, one in zip(SOURCES, found, strict=True):
        assert written(one) <= own_list(engine, source)
    whole = plain.search(SOURCES, 3, Options(limits=np.full(3, 9)))
    assert any(not written(one) <= own_list(engine, source) for source, one in zip(SOURCES, whole, strict=True))


def test_lists_go_with_their_sentences_when_places_are_taken(engine: OnnxEngine) -> None:
    tokens, active = np.full((2, 4), BOS), np.ones((2, 4), dtype=bool)
    stepper = engine.start(SOURCES[:2], np.array([4, 4]), Options(verified=False))
    stepper.step(tokens, active, n_best=9)
    stepper.keep(np.array([1, 0]))
    best = stepper.step(tokens, active, n_best=9).best_tokens
    assert best is not None
    for row, source in zip(best, (SOURCES[1], SOURCES[0]), strict=True):
        assert set(row.ravel().tolist()) <= own_list(engine, source)


def test_exact_is_what_one_segment_writes_from_the_list(engine: OnnxEngine) -> None:
    for source in SOURCES:
        options = Options(limits=np.array([9]), verified=False)
        [exact] = decode_exactly(engine, [source], np.array([3]), options)
        assert exact.segments == decode(engine, [source], 1)[0].segments
        assert written(exact) <= own_list(engine, source)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("scores", [True, False])
def test_verified_lists_change_nothing(
    engine: OnnxEngine, plain: OnnxEngine, k: int, scores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a list holds the whole translation or not: what comes out is that of the whole vocabulary."""
    held: list[bool] = []
    expected: list[bool] = []

    def noted(lists: Lists, *given: Any) -> Decoded | None:
        found = verified(lists, *given)
        held.append(found is not None)
        return found

    verified = Lists.verified
    monkeypatch.setattr(Lists, "verified", noted)
    monkeypatch.setattr(engine, "_pays", True)
    for source in SOURCES:
        [whole] = decode(plain, [source], k, scores=scores)
        for common in (COMMON, [EOS, DEL, *written(whole)]):  # too few, and enough
            monkeypatch.setattr(engine._lists, "_table", table_of(np.full((V, 1), EOS), common))
            [one] = decode(engine, [source], k, scores=scores, verified=True)
            expected.append(written(whole) <= {*common, *source})
            assert (one.segments, one.steps) == (whole.segments, whole.steps)
            for mine, theirs in zip(one.log_probs, whole.log_probs, strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-4)
    assert held == expected
    assert set(held) == {False, True}


def test_verified_lists_leave_batches_beams_and_forced_words_to_the_whole_vocabulary(
    engine: OnnxEngine, plain: OnnxEngine
) -> None:
    limits, forced = np.full(3, 9), [{(0, 1): 999}]
    assert decode(engine, SOURCES, 4, verified=True) == decode(plain, SOURCES, 4)
    assert decode(engine, SOURCES[:1], 4, verified=True, forced=forced) == decode(plain, SOURCES[:1], 4, forced=forced)
    assert decode(engine, SOURCES[:1], 4, verified=True, top_tokens=3) == decode(plain, SOURCES[:1], 4, top_tokens=3)
    assert engine.search(SOURCES, 3, Options(limits=limits)) == plain.search(SOURCES, 3, Options(limits=limits))
    [exact] = decode_exactly(engine, SOURCES[:1], np.array([3]), Options(limits=np.array([9])))
    assert exact.segments == decode(plain, SOURCES[:1], 1)[0].segments


@pytest.mark.parametrize("pays", [True, False])
def test_models_that_have_learnt_nothing_are_timed_as_if_lists_held_their_words(
    engine: OnnxEngine, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_pays", pays)
    lives = np.array([3, 2])
    [one] = engine.decode(SOURCES[:1], np.array([2]), Options(lives=lives))
    assert list(map(len, one.segments)) == lives.tolist()
    assert [segment[-1] for segment in one.segments] == [EOS, EOS]


def test_small_matrices_are_not_worth_verifying(engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lists, "cut", None)  # nobody asks for a list
    assert decode(engine, SOURCES[:1], 4, verified=True)


def test_scores_are_those_of_the_whole_vocabulary(engine: OnnxEngine, plain: OnnxEngine) -> None:
    pairs = [(source, [700, 701, 99, 50]) for source in SOURCES]
    for k in (1, 3):
        assert engine.score(pairs, k) == plain.score(pairs, k)


def test_scores_step_by_step_are_those_of_the_whole_vocabulary(folder: Path, plain: OnnxEngine) -> None:
    bounded = OnnxEngine(folder, CONFIG, max_memory=200_000)  # too little for all rows of a target at once
    pair = (SOURCES[0], [700, 701, 99, 50] * 8)
    [one], [other] = bounded.score([pair]), plain.score([pair])
    np.testing.assert_allclose(one.log_probs[0], other.log_probs[0], atol=1e-4)


def test_without_lists_all_is_as_it_was(engine: OnnxEngine, plain: OnnxEngine) -> None:
    for k in (1, 4):
        assert decode(engine, SOURCES, k, top_tokens=2, shortlist=False) == decode(plain, SOURCES, k, top_tokens=2)
    options = Options(limits=np.array([9]), shortlist=False)
    exact = decode_exactly(engine, SOURCES[:1], np.array([3]), options)
    assert exact == decode_exactly(plain, SOURCES[:1], np.array([3]), Options(limits=np.array([9])))


def test_whose_list_is_more_than_half_the_vocabulary_chooses_from_all_of_it(engine: OnnxEngine) -> None:
    assert engine._lists
    bias = np.zeros(1024, dtype=np.float32)
    many = dict(enumerate(range(5, V)))  # forced, so that they are in the list
    assert engine._lists.cut(SOURCES[:1], bias, [many]) is None  # type: ignore[list-item]
    listed = engine._lists.cut(SOURCES[:2], bias, [many, {}])  # type: ignore[list-item]
    assert listed
    counts = np.isfinite(listed._bias).sum(axis=1).tolist()
    assert counts == [V, len(own_list(engine, SOURCES[1]))]


def test_lists_hold_the_sources_own_pieces_and_no_special_ones() -> None:
    table = table_of(np.full((V, 1), EOS))
    [members] = table.members([[300, BOS, 301]])
    assert set(np.flatnonzero(members)) == {*COMMON, 300, 301}
    assert not members[list(NEVER_EMITTED)].any()


def test_a_source_has_what_is_common_in_its_direction() -> None:
    common = np.zeros((2, V), dtype=bool)
    common[0, 10], common[1, 11] = True, True
    table = Shortlist(np.full((V, 1), 20), np.array([5, 6]), common)
    members = table.members([[5, 30], [6, 30], [30]])
    assert [np.flatnonzero(row).tolist() for row in members] == [[10, 20, 30], [11, 20, 30], [10, 11, 20, 30]]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = table_of(np.random.default_rng(2).integers(0, V, (V, 7)))
    table.save(tmp_path / TABLE)
    read = Shortlist.load(tmp_path / TABLE, V)
    np.testing.assert_array_equal(np.sort(table.likeliest, axis=1), read.likeliest)
    np.testing.assert_array_equal(table.tags, read.tags)
    np.testing.assert_array_equal(table.common, read.common)


def test_a_damaged_table_or_one_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / TABLE
    table_of(np.zeros((V, 3), dtype=np.int64)).save(path)
    with pytest.raises(UserError, match="another model"):
        Shortlist.load(path, V + 1)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged"):
        Shortlist.load(path, V)


def test_processors_that_overflow_have_no_lists(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "saturates", lambda folder: True)
    assert (OnnxEngine(folder, CONFIG)._lists is None) == (folder.name == "int8")


def test_half_of_the_files_is_no_list(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / folder.name
    copied.mkdir()
    for path in folder.iterdir():
        if path.name != LISTED_STEP:
            (copied / path.name).write_bytes(path.read_bytes())
    (tmp_path / TABLE).write_bytes((folder.parent / TABLE).read_bytes())
    assert OnnxEngine(copied, CONFIG)._lists is None


def test_only_some_pieces_of_a_list_begin_segments(engine: OnnxEngine) -> None:
    begins = np.zeros(V, dtype=bool)
    begins[[EOS, DEL, *range(100, 130)]] = True
    together, alone = (
        [one for sources in groups for one in decode(engine, sources, 4, begins=begins)]
        for groups in ([SOURCES], [[source] for source in SOURCES])
    )
    assert [one.segments for one in together] == [one.segments for one in alone]
    assert all(begins[segment[0]] for one in together for segment in one.segments)
    later = {token for one in together for segment in one.segments for token in segment[1:]}
    assert not begins[list(later)].all()
    for source, one in zip(SOURCES, together, strict=True):
        assert written(one) <= own_list(engine, source)
