"""The engine in C++ writes what the ONNX engine writes, and the same words whichever way it is asked."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.stopping import StoppedError, stoppable
from recoversat.engines.engine import Options, Sources, StepEngine
from recoversat.engines.loading import EngineOptions, load_engine
from recoversat.engines.native import _engine
from recoversat.engines.native import engine as native_engine
from recoversat.engines.native._engine import Sentence, Verify
from recoversat.engines.native.engine import NativeEngine, _likeliest
from recoversat.engines.native.model import KIT, chosen_kit
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.errors import UserError
from recoversat.export.int8 import quantised
from recoversat.export.onnx import export_int8
from recoversat.files.int8 import INT8, read_int8, write_int8
from recoversat.files.model_folder import ONNX
from recoversat.inference.exact import decode_exactly
from recoversat.measuring.speed.untrained import made_up_ranges
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, NEVER_EMITTED, PAD
from tests.parity.test_onnx import lively_model, sources_of
from tests.processors import needs_native

pytestmark = needs_native
CONFIG = ModelConfig(
    d_model=64, d_hidden=96, n_heads=4, encoder_layers=2, decoder_layers=3, vocab_size=301, max_segments=8
)
SOURCES = sources_of([1, 3, 7, 8, 9, 17, 30, 64])
ALL = Options(extra_steps=12)


KITS = _engine.kits()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(talkative_weights(), tmp_path_factory.mktemp("exported"))


def write_model(weights: dict[str, Floats], folder: Path) -> Path:
    write_int8(folder, quantised(weights, CONFIG, made_up_ranges(weights)), CONFIG)
    export_int8(CONFIG, folder / ONNX)
    return folder


def talkative_weights() -> dict[str, Floats]:
    """Return weights of a model whose sentences differ, and end one after the other."""
    rng = np.random.default_rng(1)
    weights = {name: value.numpy() for name, value in lively_model(CONFIG, seed=1).state_dict().items()}
    for name, value in weights.items():
        middle = 1.0 if name.endswith("norm.weight") else 0.0
        spread = 5 / value.shape[-1] ** 0.5 if value.ndim > 1 else 0.2
        weights[name] = rng.normal(middle, 0.1 if name == "embedding.weight" else spread, value.shape).astype(
            np.float32
        )
    weights["embedding.weight"][[EOS, DEL]] *= 3
    return weights


@pytest.fixture(scope="module")
def engine(folder: Path) -> NativeEngine:
    return NativeEngine(folder, CONFIG)


def decode(engine: NativeEngine | OnnxEngine, k: int, options: Options = ALL) -> list[Decoded]:
    return engine.decode(SOURCES, np.full(len(SOURCES), k), options)


def same(ours: list[Decoded], others: list[Decoded]) -> None:
    assert [one.segments for one in ours] == [one.segments for one in others]
    for one, other in zip(ours, others, strict=True):
        for mine, theirs in zip(one.log_probs, other.log_probs, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_it_writes_what_the_onnx_engine_writes(engine: NativeEngine, folder: Path, k: int) -> None:
    onnx = OnnxEngine(folder, "int8", CONFIG)
    for ours, theirs in zip(decode(engine, k), decode(onnx, k), strict=True):
        pairs = [(one, other) for one, other in zip(ours.segments, theirs.segments, strict=True) if one and other]
        # one step at least, before a sum that was added up in another order may have tipped a scale
        assert [one[0] for one, _ in pairs] == [other[0] for _, other in pairs]
        first = [values[0] for values in ours.log_probs], [values[0] for values in theirs.log_probs]
        assert first[0] == pytest.approx(first[1], abs=0.05)
    alike = [one.segments == other.segments for one, other in zip(decode(engine, k), decode(onnx, k), strict=True)]
    assert sum(alike) >= len(alike) - 2


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_step_by_step_comes_out_what_one_call_writes(engine: NativeEngine, k: int) -> None:
    whole, stepwise = decode(engine, k), decode(engine, k, replace(ALL, top_tokens=3))
    same(whole, stepwise)
    for one in stepwise:
        for tokens, tops in zip(one.segments, one.top_tokens, strict=True):
            assert [top[0][0] for top in tops] == tokens
            assert all(len(top) == 3 and top[0][1] >= top[1][1] >= top[2][1] for top in tops)
    unscored = decode(engine, k, replace(ALL, scores=False))
    assert [one.segments for one in unscored] == [one.segments for one in whole]
    assert len({len(segment) for one in whole for segment in one.segments}) > 2  # they do end


def test_neither_neighbours_nor_threads_nor_memory_change_a_word(engine: NativeEngine, folder: Path) -> None:
    together = decode(engine, 5)
    same(together, [engine.decode([source], np.array([5]), ALL)[0] for source in SOURCES])
    same(together, decode(NativeEngine(folder, CONFIG, threads=3), 5))
    same(together, engine.decode(engine.encode(SOURCES), np.full(len(SOURCES), 5), ALL))
    same(decode(engine, 5, replace(ALL, top_tokens=1)), together)


MIXED = sources_of([9, 1, 30, 64, 3, 17, 2, 150, 8, 1, 40, 25, 7, 5, 33, 12])
MIXED_K = np.array([1, 8, 2, 5, 1, 3, 8, 4, 2, 1, 1, 5, 8, 7, 1, 6])


def alone(engine: NativeEngine, options: Options, counts: Ints = MIXED_K) -> list[Decoded]:
    """Write the sentences one by one."""
    return [engine.decode([source], counts[[at]], options.of([at]))[0] for at, source in enumerate(MIXED)]


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("side_by_side", [1, 2, 8, 1000])
def test_a_batch_is_what_its_sentences_are_alone(
    engine: NativeEngine, folder: Path, kits: list[str], side_by_side: int, scores: bool
) -> None:
    options = replace(ALL, scores=scores)
    wanted = alone(engine, options)
    assert len({one.steps for one in wanted}) > 4  # they end one after the other
    for kit in KITS:
        own = NativeEngine(folder, CONFIG, kit=kit)
        own._model.side_by_side = side_by_side
        assert own.decode(MIXED, MIXED_K, options) == wanted  # to the bit
        backwards = own.decode(MIXED[::-1], MIXED_K[::-1], options)
        assert backwards[::-1] == wanted


def test_sentences_side_by_side_may_be_remembered_or_not(engine: NativeEngine) -> None:
    remembered = engine.encode(MIXED)
    mixed = [other if at % 3 else one for at, (one, other) in enumerate(zip(MIXED, remembered, strict=True))]
    assert engine.decode(mixed, MIXED_K, ALL) == alone(engine, ALL)


@pytest.mark.parametrize(
    "options",
    [
        replace(ALL, top_tokens=2),
        replace(ALL, forced=[{(0, 1): 40} if at % 3 == 0 else {} for at in range(len(MIXED))]),
        replace(ALL, limits=np.arange(len(MIXED))),
        replace(ALL, together=True),
        replace(ALL, lives=np.array([3, 1, 2, 6, 1, 1, 4, 2])),
    ],
)
def test_what_is_looked_into_is_the_same_in_a_batch(engine: NativeEngine, folder: Path, options: Options) -> None:
    wanted = alone(engine, options)
    assert engine.decode(MIXED, MIXED_K, options) == wanted
    assert NativeEngine(folder, CONFIG, threads=3).decode(MIXED, MIXED_K, options) == wanted


@pytest.mark.parametrize("beam", [1, 4, 50])
def test_beams_are_the_same_in_a_batch(engine: NativeEngine, folder: Path, beam: int) -> None:
    wanted = [engine.search([source], beam, ALL)[0] for source in MIXED]
    assert engine.search(MIXED, beam, ALL) == wanted
    assert NativeEngine(folder, CONFIG, max_memory=1).search(MIXED, beam, ALL) == wanted


def test_only_the_first_step_begins(engine: NativeEngine) -> None:
    begins = np.zeros(CONFIG.vocab_size, dtype=np.bool_)
    begins[50:60] = True
    options = replace(ALL, begins=begins)
    written = engine.decode(MIXED, MIXED_K, options)
    assert written == alone(engine, options)
    same(written, engine.decode(MIXED, MIXED_K, replace(options, top_tokens=1)))  # step by step
    later = {token for one in written for segment in one.segments for token in segment[1:]}
    assert len(later - set(range(50, 60))) > 10
    plain = engine.decode(MIXED, MIXED_K, ALL)
    for one, other, k in zip(written, plain, MIXED_K, strict=True):
        assert k > 1 or one == other  # one segment begins as it likes
    begins[:] = False
    nothing = engine.decode(MIXED, MIXED_K, options)
    for one, k in zip(nothing, MIXED_K, strict=True):  # who may choose nothing ends
        assert k == 1 or (one.segments, one.log_probs, one.steps) == ([[EOS]] * k, [[-np.inf]] * k, 1)
    stepwise = engine.decode(MIXED, MIXED_K, replace(options, top_tokens=2))
    same(nothing, stepwise)
    assert not any(np.isnan(value) for one in stepwise for tops in one.top_tokens for top in tops for _, value in top)


def under_way(engine: NativeEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many sentences are under way after every step."""
    found: list[int] = []
    real = engine._model.decoder

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(real(), name)

        def advance(self, _: int) -> int:
            found.append(real().advance(1))
            return found[-1]

    monkeypatch.setattr(engine._model, "decoder", Watched)
    return found


def test_sentences_take_the_places_of_those_that_have_ended(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = under_way(engine, monkeypatch)
    ones = np.ones(len(MIXED), dtype=np.int64)
    written = engine.decode(MIXED, ones, ALL)
    assert max(found) >= engine._model.side_by_side
    assert len(found) < sum(one.steps for one in written) / 2  # several in a step
    longest = max(one.steps for one in written)
    assert len(found) < longest * len(MIXED) / engine._model.side_by_side  # nobody waits for the longest of a few


def test_no_more_sentences_are_under_way_than_memory_is_there_for(
    engine: NativeEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, counts = alone(engine, ALL), []
    row = 3 * 2 * CONFIG.d_model * 4 * 3 // 2  # bytes: layers, keys and values, and what growing may add
    largest = max(
        (-(-len(source) // 16) * 16 + -(-int(k) * most // 16) * 16) * row
        for source, k, most in zip(MIXED, MIXED_K, ALL.most_steps(MIXED, MIXED_K), strict=True)
    )
    for memory in (1, 2 * largest, 8 * largest, None):
        bounded = NativeEngine(folder, CONFIG, max_memory=memory)
        found = under_way(bounded, monkeypatch)
        assert bounded.decode(MIXED, MIXED_K, ALL) == wanted
        counts.append(max(found))
        two = NativeEngine(folder, CONFIG, max_memory=memory, threads=2)
        assert two.decode(MIXED, MIXED_K, ALL) == wanted
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert counts[1] < counts[-1]
    same_size, k = [MIXED[3]] * 9, np.full(9, 5)
    own = (64 + -(-5 * int(ALL.most_steps(same_size[:1], k[:1])[0]) // 16) * 16) * row
    for fit in (1, 2, 3):
        bounded = NativeEngine(folder, CONFIG, max_memory=2 * fit * own)
        bounded._model.side_by_side = 1000
        found = under_way(bounded, monkeypatch)
        bounded.decode(same_size, k, ALL)
        assert max(found) == fit


def test_a_batch_can_be_stopped_between_two_steps(engine: NativeEngine) -> None:
    calls = 0

    def stop_at_third() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StoppedError

    with pytest.raises(StoppedError), stoppable(stop_at_third):
        engine.decode(MIXED, np.ones(len(MIXED), dtype=np.int64), ALL)
    assert engine.decode(MIXED, MIXED_K, ALL) == alone(engine, ALL)  # nothing is left of it


def test_the_likeliest_are_those_of_a_stable_sort() -> None:
    rows = np.random.default_rng(3).integers(0, 6, (20, 40)).astype(np.float32)
    rows[3], rows[4, 5:] = -np.inf, -np.inf
    for n in (0, 1, 2, 7, 40):
        assert (_likeliest(rows, n) == np.argsort(-rows, axis=1, kind="stable")[:, :n]).all()


def test_all_kits_write_the_same(engine: NativeEngine, listed_folder: Path, kits: list[str]) -> None:
    pairs = [(source, one.segments[0][:-1]) for source, one in zip(SOURCES, decode(engine, 1), strict=True)]

    def written_by(kit: str) -> list[Any]:
        own = NativeEngine(listed_folder, CONFIG, kit=kit)
        found: list[Any] = [decode(own, k, options) for k in (1, 5) for options in (ALL, UNVERIFIED)]
        return [*found, own.score(pairs), own.deletions(pairs), own.search(SOURCES, 3, ALL)]

    wanted = written_by(kits[0])
    assert "plain" in kits
    for kit in kits[1:]:
        assert written_by(kit) == wanted  # to the bit


def test_of_equals_the_first_is_chosen(tmp_path: Path) -> None:
    weights = talkative_weights()
    pieces = weights["embedding.weight"]
    pieces[101:200:2], firsts = pieces[100:200:2], set(range(100, 200, 2))
    pieces[200:300] = pieces[100:200]
    write_model(weights, tmp_path)
    for kit in KITS:
        own = NativeEngine(tmp_path, CONFIG, kit=kit)
        for options in (ALL, replace(ALL, scores=False), replace(ALL, top_tokens=1)):
            used = {token for one in decode(own, 5, options) for segment in one.segments for token in segment}
            assert used & firsts
            assert not used & (set(range(100, 300)) - firsts)


def test_verified_drafts_are_the_words_of_one_segment(engine: NativeEngine) -> None:
    ones = np.ones(len(SOURCES), dtype=np.int64)
    limits = ALL.most_steps(SOURCES, ones)
    greedy = engine.decode(SOURCES, ones, replace(ALL, limits=limits))
    exact = decode_exactly(engine, SOURCES, np.full(len(SOURCES), 5), replace(ALL, limits=limits))
    same(exact, greedy)
    for source, one in zip(SOURCES, greedy, strict=True):  # a right draft of any length, in passes of any size
        tokens = [BOS, *one.segments[0][:-1]]
        for cut in (1, 4, 5, len(tokens)):
            verifier = engine.verifier(source, 100)
            parts = [tokens[at : at + cut] for at in range(0, len(tokens), cut)]
            found = [verifier.verify(part, True) for part in parts]
            assert np.concatenate([chosen for chosen, _ in found]).tolist() == one.segments[0]
            assert np.concatenate([values for _, values in found]).tolist() == pytest.approx(one.log_probs[0], abs=1e-5)


def test_forgotten_rows_leave_nothing_behind(engine: NativeEngine) -> None:
    verifier, fresh = engine.verifier(SOURCES[5], 100), engine.verifier(SOURCES[5], 100)
    verifier.verify([BOS, 7, 8, 9, 10, 11], True)
    verifier.forget(2)
    fresh.verify([BOS, 7], True)
    ours, theirs = verifier.compare([12, 13, 14]), fresh.compare([12, 13, 14])
    assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))
    best, likely, given = ours
    assert len(best) == len(likely) == 3
    assert len(given) == 2
    assert (given <= likely[:2]).all()


def test_scores_are_those_of_decoding_and_searching(engine: NativeEngine, folder: Path) -> None:
    for one, best, source in zip(decode(engine, 1), engine.search(SOURCES, 4, ALL), SOURCES, strict=True):
        for written in (one, best):
            tokens = [token for token in written.segments[0] if token != EOS]
            [again] = engine.score([(source, tokens)])
            assert again.log_probs[0][: len(written.log_probs[0])] == pytest.approx(written.log_probs[0], abs=1e-4)
            same([again], StepEngine.score(engine, [(source, tokens)]))
    onnx, pairs = OnnxEngine(folder, "int8", CONFIG), [(SOURCES[6], [20, 21, 22]), (SOURCES[1], [5])]
    for k in (1, 2):
        for ours, theirs in zip(engine.score(pairs, k), onnx.score(pairs, k), strict=True):
            assert ours.segments == theirs.segments
            assert np.concatenate(ours.log_probs).tolist() == pytest.approx(np.concatenate(theirs.log_probs), abs=0.2)
    for mine, their in zip(engine.deletions(pairs), onnx.deletions(pairs), strict=True):
        assert mine == pytest.approx(their, abs=0.05)


def test_a_beam_finds_what_is_at_least_as_likely(engine: NativeEngine) -> None:
    ones = engine.search(SOURCES, 1, replace(ALL, length_penalty=0.0))
    assert [one.segments for one in ones] == [one.segments for one in decode(engine, 1)]
    fours = engine.search(SOURCES, 4, replace(ALL, length_penalty=0.0))
    better = [sum(four.log_probs[0]) >= sum(one.log_probs[0]) - 1e-4 for one, four in zip(ones, fours, strict=True)]
    assert sum(better) >= len(better) - 1


def test_what_is_forced_is_written(engine: NativeEngine) -> None:
    forced = [{(1, 0): 40, (1, 1): 41} for _ in SOURCES]
    for one in decode(engine, 3, replace(ALL, forced=forced)):
        assert one.segments[1][:2] == [40, 41]
    begins = np.zeros(CONFIG.vocab_size, dtype=np.bool_)
    begins[[50, 51, EOS]] = True
    for one in decode(engine, 3, replace(ALL, begins=begins)):
        assert {segment[0] for segment in one.segments} <= {50, 51, EOS}
    for one in decode(engine, 3):
        assert not set(NEVER_EMITTED) & {token for segment in one.segments for token in segment}
    [[first, *_]] = engine.score([(SOURCES[2], [DEL])])[0].log_probs
    assert first == -np.inf  # one segment has nothing to delete


@pytest.fixture(scope="module")
def listed_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model with lists: the pieces below 60, 70 and the source's own."""
    made = tmp_path_factory.mktemp("listed")
    (made / INT8).symlink_to(folder / INT8)
    common = np.zeros((1, CONFIG.vocab_size), dtype=np.bool_)
    common[0, [EOS, DEL, *range(N_SPECIAL, 60)]] = True
    Shortlist(np.full((CONFIG.vocab_size, 1), 70), np.array([], dtype=np.int64), common).save(made / TABLE)
    return made


@pytest.fixture(scope="module")
def listed(listed_folder: Path) -> NativeEngine:
    return NativeEngine(listed_folder, CONFIG)


UNVERIFIED = replace(ALL, verified=False)


def test_a_list_is_all_there_is(listed: NativeEngine, engine: NativeEngine) -> None:
    found = decode(listed, 4, UNVERIFIED)
    for source, one in zip(SOURCES, found, strict=True):
        mine = {EOS, DEL, *range(N_SPECIAL, 60), 70, *source}
        assert {token for segment in one.segments for token in segment} <= mine
    same(found, decode(listed, 4, replace(UNVERIFIED, top_tokens=1)))
    same(decode(listed, 4), decode(engine, 4))
    assert [one.segments for one in found] != [one.segments for one in decode(engine, 4)]
    forced = [{(0, 0): 200} for _ in SOURCES]
    for one in decode(listed, 4, replace(UNVERIFIED, forced=forced)):
        assert one.segments[0][0] == 200


@pytest.mark.parametrize("side_by_side", [1, 8, 1000])
def test_each_sentence_of_a_batch_has_its_own_list(listed: NativeEngine, side_by_side: int) -> None:
    wanted = alone(listed, UNVERIFIED)
    usual, listed._model.side_by_side = listed._model.side_by_side, side_by_side
    try:
        assert listed.decode(MIXED, MIXED_K, UNVERIFIED) == wanted
    finally:
        listed._model.side_by_side = usual
    same(listed.decode(MIXED, MIXED_K, replace(UNVERIFIED, top_tokens=1)), wanted)
    begins = np.zeros(CONFIG.vocab_size, dtype=np.bool_)
    begins[[50, 51, 200]] = True
    options = replace(UNVERIFIED, begins=begins)
    written = listed.decode(MIXED, MIXED_K, options)
    assert written == alone(listed, options)
    same(written, listed.decode(MIXED, MIXED_K, replace(options, top_tokens=1)))
    begins[:] = False
    for one, k in zip(listed.decode(MIXED, MIXED_K, options), MIXED_K, strict=True):
        assert k == 1 or (one.segments, one.steps) == ([[EOS]] * k, 1)


def verified(engine: NativeEngine, sources: Sources, counts: Ints, verify: Verify, scores: bool) -> list[Decoded]:
    """Write sentences side by side, each from its list at first; what a segment begins with is a choice of its own."""
    first, usual = engine._bias.copy(), engine._bias
    first[90:301] = -np.inf
    wanted = [Sentence(one, [12] * k, usual, first, None) for one, k in zip(sources, counts.tolist(), strict=True)]
    shortlist = None if verify is Verify.NO else engine._shortlist
    return engine._model.write(wanted, shortlist, scores, verify=verify)


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("side_by_side", [1, 8, 1000])
def test_a_list_that_is_verified_changes_nothing(
    listed: NativeEngine, side_by_side: int, scores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed._model, "side_by_side", side_by_side)
    whole = verified(listed, MIXED, MIXED_K, Verify.NO, scores)
    assert verified(listed, MIXED, MIXED_K, Verify.YES, scores) == whole
    in_vain = verified(listed, MIXED, MIXED_K, Verify.TIME_ONLY, scores)
    better = [one.segments != other.segments for one, other in zip(in_vain, whole, strict=True)]
    assert len(better) > sum(better) > len(better) / 3  # what they lack is found, and who lacks nothing stays
    firsts = [one.segments[0][0] != other.segments[0][0] for one, other in zip(in_vain, whole, strict=True)]
    assert 0 < sum(firsts) < sum(better)  # in the first step and in later ones


def test_one_sentence_of_few_segments_is_written_from_its_list(
    listed: NativeEngine, listed_folder: Path, engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Verify] = []
    write = listed._model.write

    def watched(*given: Any) -> list[Decoded]:
        found.append(given[-1] if given[1] else Verify.NO)
        return write(*given)

    monkeypatch.setattr(listed._model, "write", watched)
    for k in (1, 3, 4):
        assert listed.decode([MIXED[2]], np.array([k]), ALL) == engine.decode([MIXED[2]], np.array([k]), ALL)
    listed.decode(MIXED[:2], np.ones(2, dtype=np.int64), ALL)
    listed.decode([MIXED[2]], np.array([1]), replace(ALL, shortlist=False))
    listed.decode([MIXED[2]], np.array([2]), replace(ALL, lives=np.array([3, 2])))
    monkeypatch.setattr(native_engine, "_LARGE", 0)
    large = NativeEngine(listed_folder, CONFIG)
    monkeypatch.setattr(large._model, "write", watched)
    large.decode([MIXED[2]], np.array([8]), ALL)
    never, always = Verify.NO, Verify.YES
    assert found == [always, always, never, never, never, Verify.TIME_ONLY, always]


def test_who_has_no_list_or_one_too_long_chooses_from_all(folder: Path, tmp_path: Path, engine: NativeEngine) -> None:
    (tmp_path / INT8).symlink_to(folder / INT8)
    never = np.full((CONFIG.vocab_size, 1), BOS)
    for common in (0, 1):  # nothing but the source, or everything
        all_or_none = np.full((1, CONFIG.vocab_size), bool(common))
        Shortlist(never, np.array([], dtype=np.int64), all_or_none).save(tmp_path / TABLE)
        own = NativeEngine(tmp_path, CONFIG)
        specials = [[BOS], [BOS, PAD]]  # which can become nothing
        sources, counts = [*specials, *MIXED], np.array([2, 1, *MIXED_K])
        written = own.decode(sources, counts, UNVERIFIED)
        whole = engine.decode(sources, counts, UNVERIFIED)
        assert written[:2] == whole[:2]
        assert (written == whole) is bool(common)


def test_segments_live_as_long_as_they_are_told(engine: NativeEngine) -> None:
    lives = np.array([3, 1, 2])
    for one in decode(engine, 3, replace(ALL, lives=lives)):
        assert [len(segment) for segment in one.segments] == [3, 1, 2]
        assert all(segment[-1] == EOS for segment in one.segments)
    [one, three] = engine.decode(SOURCES[:2], np.array([1, 3]), replace(ALL, lives=lives))
    assert [len(one.segments), len(three.segments)] == [1, 3]


@pytest.mark.parametrize(
    ("name", "size"),
    [("n_heads", 2), ("decoder_layers", 2), ("encoder_layers", 1), ("encoder_layers", 3), ("d_hidden", 128),
     ("d_hidden", 65536), ("d_model", 128), ("vocab_size", 900), ("vocab_size", 200), ("max_segments", 64)],
)  # fmt: skip
def test_weights_of_another_model_are_refused(folder: Path, name: str, size: int) -> None:
    with pytest.raises(UserError, match=r"of another model|int8 is for models whose"):
        NativeEngine(folder, CONFIG.model_copy(update={name: size}))


def test_ids_and_segments_are_checked(engine: NativeEngine, folder: Path) -> None:
    for source in ([], [1 << 30], [-200], [100_000]):
        with pytest.raises(ValueError, match="ids from 0 to"):
            engine.decode([source], np.array([2]), ALL)
        with pytest.raises(ValueError, match="ids from 0 to"):
            engine.search([source], 2, ALL)
    with pytest.raises(ValueError, match="this model has 8 segments, not 40"):
        engine.decode(SOURCES[:1], np.array([40]), ALL)
    [one] = engine.decode(SOURCES[:1], np.array([8]), replace(ALL, limits=np.array([0])))
    assert [len(segment) for segment in one.segments] == [1] * 8
    strangers = NativeEngine(folder, CONFIG).encode(SOURCES)
    same(engine.decode(strangers, np.full(len(SOURCES), 5), ALL), decode(engine, 5))


def test_a_program_may_end_while_a_thread_translates(folder: Path, tmp_path: Path, engine: NativeEngine) -> None:
    (tmp_path / "config.json").write_text(CONFIG.model_dump_json())
    code = f"""
import threading, time, numpy as np
from pathlib import Path
from recoversat.config import ModelConfig
from recoversat.engines.native.engine import NativeEngine
config = ModelConfig.model_validate_json(Path({str(tmp_path / "config.json")!r}).read_text())
engine = NativeEngine(Path({str(folder)!r}), config)
def work():
    while True:
        engine.decode([[7, 8, 9] * 20], np.array([8]))
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"d_model": 48}, "multiples of 32"),
        ({"d_hidden": 0}, "multiples of 32"),
        ({"d_hidden": (1 << 16) + 32}, "limited to 65,536"),  # sums would not fit into 32 bits
        ({"n_heads": 8}, "a multiple of 16"),
        ({"n_heads": 0}, "a multiple of 16"),
        ({"segments": 0}, "at least one segment"),
        ({"decoder_layers": -1}, "at least one segment and one layer"),
        ({"pieces": 256}, r"embedding.weight is int8\[384, 64\] instead of int8\[256, 64\]"),
        ({"d_hidden": 128}, "weights of another model"),
        ({"encoder_layers": 1}, "more than 1 layers of the encoder"),
        ({"encoder_layers": 3}, "encoder.layers.2.attention_norm.weight is missing"),
    ],
)
def test_sizes_that_are_not_those_of_the_arrays_are_refused(folder: Path, sizes: dict[str, int], error: str) -> None:
    wanted = {
        "d_model": 64, "d_hidden": 96, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 3, "pieces": 384,
        "segments": 8,
    }  # fmt: skip
    arrays = read_int8(folder, CONFIG)
    _engine.Model(KITS[0], arrays, **wanted)
    with pytest.raises(_engine.ModelError, match=error):
        _engine.Model(KITS[0], arrays, **{**wanted, **sizes})


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory.scale", np.nan), ("embedding.scale", np.inf), ("decoder.norm.bias", -np.inf), ("memory.step", 0.0),
     ("memory.step", -1.0), ("memory.step", 1e-45), ("segment_embedding", np.nan), ("memory.bias", np.nan)],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(folder: Path, tmp_path: Path, name: str, value: float) -> None:
    arrays = {key: array.copy() for key, array in read_int8(folder, CONFIG).items()}
    arrays[name].flat[-1] = value
    write_int8(tmp_path, arrays, CONFIG)
    with pytest.raises(UserError, match=rf"int8.safetensors: damaged: {name} .*; export the model again"):
        NativeEngine(tmp_path, CONFIG)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_refused_or_read_never_trusted(folder: Path, tmp_path: Path, seed: int) -> None:
    rng, whole = np.random.default_rng(seed), (folder / INT8).read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(0, header if rng.random() < 0.7 else len(whole), rng.integers(1, 4)).tolist():
            damaged[place] = int(rng.integers(0, 256))
        cut = int(rng.integers(0, len(whole))) if rng.random() < 0.2 else len(whole)
        (tmp_path / INT8).write_bytes(damaged[:cut])
        try:
            own = NativeEngine(tmp_path, CONFIG)
        except UserError:
            refused += 1
            continue
        assert len(own.decode(MIXED[:3], MIXED_K[:3], replace(ALL, scores=False))) == 3
    assert refused > 30


def test_little_memory_means_that_less_is_done_at_once(
    engine: NativeEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ten_rows = 2 * 3 * 10 * 384 * 4  # twice three copies of the scores, 301 tokens in blocks of 128
    bounded = load_engine(folder, CONFIG, EngineOptions("cpu", "int8_native", 1, max_memory=ten_rows))
    assert isinstance(bounded, NativeEngine)
    assert bounded.encode(SOURCES) is SOURCES
    same(decode(bounded, 5), decode(engine, 5))
    pairs = [(SOURCES[3], list(range(7, 7 + n))) for n in (9, 10, 300)]
    wanted, rows = engine.score(pairs), []
    run = bounded._model.rows
    monkeypatch.setattr(
        bounded._model, "rows", lambda *given, **more: rows.append(len(given[2])) or run(*given, **more)
    )
    same(bounded.score(pairs), wanted)
    assert max(rows) == 10  # the first in one pass, the others row by row
    rows.clear()
    same(decode(bounded, 5, replace(ALL, top_tokens=1)), decode(engine, 5))
    assert max(rows) == 5  # sentence by sentence
    assert bounded.deletions(pairs[:1]) == engine.deletions(pairs[:1])
    with pytest.raises(UserError, match="max_memory is too small to read a draft in one pass"):
        bounded.deletions(pairs)


def test_what_it_cannot_do_is_said(engine: NativeEngine, folder: Path) -> None:
    assert engine.description["engine"] == f"native {chosen_kit()}"
    options = EngineOptions("cpu", "int8_native", 1)
    assert load_engine(folder, CONFIG, options).description == engine.description
    with pytest.raises(UserError, match="int8_native cannot run a 'nat' model; use int8"):
        load_engine(folder, CONFIG.model_copy(update={"kind": "nat"}), options)


def test_the_environment_names_a_kit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kit in KITS:
        monkeypatch.setenv(KIT, kit)
        assert NativeEngine(folder, CONFIG).description["engine"] == f"native {kit}"
    monkeypatch.setenv(KIT, "mmx")
    with pytest.raises(UserError, match=f"{KIT}: this processor cannot run the kit 'mmx'; choose {KITS[0]}"):
        NativeEngine(folder, CONFIG)
