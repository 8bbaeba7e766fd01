"""Beam search against greedy decoding, exhaustive search, and the model's own parallel pass."""

import itertools
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.decoding.beam import beam_search, penalty
from recoversat.decoding.segmentwise import Decoded, decode_segments
from recoversat.decoding.stepping import Bools, Choice, Ints
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.scoring import score_pairs
from recoversat.model.transformer import Transformer
from recoversat.vocab import BOS, EOS, N_SPECIAL

A, B, C = 5, 6, 7
SYMBOLS = (EOS, A, B, C)


@cache
def _four_log_probs(sentence: int, prefix: tuple[int, ...], sharpness: float) -> np.ndarray:
    logits = np.random.default_rng((sentence, *prefix)).normal(size=4) * sharpness
    return logits - np.log(np.exp(logits).sum())


@dataclass
class TableStepper:
    """A model of four symbols whose probabilities depend on the sentence and on the whole prefix."""

    sentences: list[int]
    sharpness: float = 1.0
    prefixes: list[tuple[int, ...]] = field(default_factory=list)
    kept: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prefixes = [()] * len(self.sentences)

    def table(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        return _four_log_probs(sentence, prefix, self.sharpness)

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        n = min(n_best, len(SYMBOLS))
        best_tokens, best = np.zeros((len(tokens), 1, n), np.int64), np.zeros((len(tokens), 1, n), np.float32)
        for place, (token, is_active) in enumerate(zip(tokens[:, 0].tolist(), active[:, 0], strict=True)):
            if not is_active:
                continue
            assert (token == BOS) == (self.prefixes[place] == ())
            self.prefixes[place] += (token,)
            log_probs = self.table(self.sentences[place], self.prefixes[place])
            order = np.argsort(-log_probs)[:n]
            best_tokens[place, 0], best[place, 0] = np.array(SYMBOLS)[order], log_probs[order]
        return Choice(best_tokens[..., 0], best[..., 0], best_tokens, best)

    def keep(self, which: Ints) -> None:
        self.kept.append(which.tolist())
        self.sentences = [self.sentences[i] for i in which]
        self.prefixes = [self.prefixes[i] for i in which]


def score(found: Decoded, alpha: float = 0.6) -> float:
    (log_probs,) = found.log_probs
    return sum(log_probs) / float(penalty(np.array(len(log_probs)), alpha))


def exhaustive(stepper: TableStepper, sentence: int, limit: int, alpha: float) -> tuple[float, list[int]]:
    """Score every sequence that ends in EOS within the limit or is cut off there; return the best."""
    scored = []
    for length in range(1, limit + 1):
        ends = [EOS] if length < limit else SYMBOLS
        for body in itertools.product((A, B, C), repeat=length - 1):
            for end in ends:
                sequence = [*body, end]
                log_probs = [
                    stepper.table(sentence, (BOS, *sequence[:t]))[SYMBOLS.index(token)]
                    for t, token in enumerate(sequence)
                ]
                scored.append((float(np.sum(log_probs) / ((5 + length) / 6) ** alpha), sequence))
    return max(scored)


def to_the_limit(stepper: TableStepper, sentence: int, limit: int, beam: int, alpha: float) -> list[int]:
    """Search for one sentence, with lists, and never stop before the limit."""
    opened: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 1):
        longer = [
            (total + log_prob, [*before, token])
            for total, before in opened
            for token, log_prob in zip(SYMBOLS, stepper.table(sentence, (BOS, *before)), strict=True)
        ]
        best = sorted(longer, reverse=True)[:beam]
        opened = [(total, ids) for total, ids in best if ids[-1] != EOS and length < limit]
        closed = [(total, ids) for total, ids in best if ids[-1] == EOS or length == limit]
        ended += [(total / ((5 + length) / 6) ** alpha, ids) for total, ids in closed]
    return max(ended)[1]


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=32, d_hidden=48, n_heads=4, encoder_layers=2, decoder_layers=2, max_segments=2, vocab_size=23
    )
    model = Transformer(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:  # a fresh model is nearly uniform and never ends; this one has opinions
            parameter.data.mul_(14.0)
    return model


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(N_SPECIAL, 23, size=n).tolist() for n in rng.integers(1, 12, size=40)]


def search(model: Transformer, sources: list[list[int]], beam: int = 4) -> list[Decoded]:
    stepper = TorchEngine(model, torch.device("cpu")).start(sources, np.ones(len(sources), dtype=np.int64))
    limits = np.array([len(source) + 6 for source in sources])
    return beam_search(stepper, limits, beam=beam)


def test_a_beam_of_one_is_greedy_decoding(model: Transformer, sources: list[list[int]]) -> None:
    ones = np.ones(len(sources), dtype=np.int64)
    limits = np.array([len(source) + 6 for source in sources])
    greedy = decode_segments(TorchEngine(model, torch.device("cpu")).start(sources, ones), ones, limits)
    found = search(model, sources, beam=1)
    closed = [result.segments[0][-1] == EOS for result in found]
    assert any(closed)
    assert not all(closed)  # both ways of ending are met
    for one, other in zip(greedy, found, strict=True):
        assert other.segments == one.segments
        assert other.log_probs[0] == pytest.approx(one.log_probs[0], abs=1e-5)
        assert other.steps == one.steps


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("sharpness", [0.5, 2.0])
def test_a_wide_beam_is_exhaustive_search(alpha: float, sharpness: float) -> None:
    sentences, limits = list(range(10, 25)), np.arange(15) % 5 + 1
    found = beam_search(TableStepper(sentences.copy(), sharpness), limits, beam=400, alpha=alpha)
    for sentence, limit, result in zip(sentences, limits.tolist(), found, strict=True):
        best, tokens = exhaustive(TableStepper([], sharpness), sentence, limit, alpha)
        assert result.segments == [tokens]
        assert score(result, alpha) == pytest.approx(best, abs=1e-5)


def test_a_narrow_beam_misses_what_a_wide_one_finds() -> None:
    sentences, limits = list(range(30)), np.full(30, 5)
    scores = [[score(one) for one in beam_search(TableStepper(sentences.copy()), limits, beam)] for beam in (1, 300)]
    narrow, wide = np.array(scores)
    assert (narrow <= wide + 1e-9).all()
    assert (narrow < wide - 1e-3).any()


def test_reported_scores_are_those_of_the_parallel_pass(model: Transformer, sources: list[list[int]]) -> None:
    found = search(model, sources)
    closed = [one.segments[0][-1] == EOS for one in found]
    assert min(sum(closed), len(closed) - sum(closed)) > 5
    words = [[token for token in one.segments[0] if token != EOS] for one in found]
    for one, again in zip(found, score_pairs(model, list(zip(sources, words, strict=True))), strict=True):
        summed = again.log_probs[0][: len(one.segments[0])]  # one that was cut off never reached its EOS
        assert one.log_probs[0] == pytest.approx(summed, abs=1e-4)


@pytest.fixture(scope="module")
def alone(model: Transformer, sources: list[list[int]]) -> list[Decoded]:
    return [search(model, [source])[0] for source in sources]


@pytest.mark.parametrize("size", [2, 3, 7, 40])
def test_sentences_do_not_notice_their_batch(
    model: Transformer, sources: list[list[int]], alone: list[Decoded], size: int
) -> None:
    order = np.random.default_rng(size).permutation(len(sources))
    for first in range(0, len(sources), size):
        batch = order[first : first + size]
        for at, result in zip(batch, search(model, [sources[i] for i in batch]), strict=True):
            assert (result.segments, result.steps) == (alone[at].segments, alone[at].steps)
            assert result.log_probs[0] == pytest.approx(alone[at].log_probs[0], abs=1e-5)


def test_what_is_found_ends_or_is_cut_off_at_the_limit(model: Transformer, sources: list[list[int]]) -> None:
    for source, result in zip(sources, search(model, sources), strict=True):
        (ids,), (log_probs,) = result.segments, result.log_probs
        assert len(log_probs) == len(ids) <= result.steps <= len(source) + 6
        assert ids[-1] == EOS or len(ids) == len(source) + 6
        assert min(ids[:-1], default=N_SPECIAL) >= N_SPECIAL


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_long_hypothesis_may_win_late(alpha: float) -> None:
    """The longer an open hypothesis may get, the more its score may rise: stopping must reckon with that."""
    sentences, limits = list(range(90)), np.arange(90) % 7 + 4
    found = beam_search(TableStepper(sentences.copy()), limits, 3, alpha)
    pairs = zip(sentences, limits.tolist(), strict=True)
    assert [one.segments for one in found] == [[to_the_limit(TableStepper([]), *pair, 3, alpha)] for pair in pairs]
    assert sum(one.steps for one in found) < limits.sum()


def test_the_cache_is_copied_only_when_places_change() -> None:
    class Certain(TableStepper):
        def table(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
            if len(prefix) == 1:  # two good beginnings, then each goes on in its own way
                return np.log([1e-9, 0.5, 0.5 - 2e-9, 1e-9])
            return np.log([1e-9, 1e-9, 1e-9, 1 - 3e-9]) if len(prefix) < 5 else np.log([1 - 3e-9, 1e-9, 1e-9, 1e-9])

    stepper = Certain([0, 0, 0])
    found = beam_search(stepper, np.array([9, 9, 9]), beam=2)
    assert found[1].segments == [[A, C, C, C, EOS]]
    assert stepper.kept == [[0, 0, 1, 1, 2, 2]]


def test_a_beam_wider_than_what_may_be_written_has_empty_slots() -> None:
    torch.manual_seed(5)
    config = ModelConfig(d_model=8, d_hidden=8, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=7)
    for result in search(Transformer(config), [[5, 6], [6]], beam=6):  # only 5, 6 and EOS may be written
        assert np.isfinite(result.log_probs[0]).all()
        assert set(result.segments[0]) <= {5, 6, EOS}


def test_finished_sentences_leave_the_batch() -> None:
    stepper = TableStepper([1, 2, 3, 4])
    beam_search(stepper, np.array([1, 5, 1, 3]), beam=3)
    assert sorted(set(stepper.kept[0])) == [1, 3]  # those of one step were left behind at once


def test_no_sentences_no_results() -> None:
    assert beam_search(TableStepper([]), np.zeros(0, dtype=np.int64)) == []
