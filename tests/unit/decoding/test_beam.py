"""Beam search against greedy decoding, exhaustive search, and the model's own parallel pass."""

import itertools
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.decoding.beam import NBest, beam_search, penalty
from recoversat.decoding.segmentwise import decode_segments
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


def exhaustive(stepper: TableStepper, sentence: int, limit: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Score every sequence that ends in EOS within the limit or is cut off there, best first."""
    scored = []
    for length in range(1, limit + 1):
        ends = [EOS] if length < limit else SYMBOLS
        for body in itertools.product((A, B, C), repeat=length - 1):
            for end in ends:
                sequence = (*body, end)
                log_probs = [
                    stepper.table(sentence, (BOS, *sequence[:t]))[SYMBOLS.index(token)]
                    for t, token in enumerate(sequence)
                ]
                score = np.sum(log_probs) / ((5 + length) / 6) ** alpha
                scored.append((float(score), tuple(token for token in sequence if token != EOS)))
    return sorted(scored, reverse=True)


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


def search(model: Transformer, sources: list[list[int]], beam: int = 4, n_best: int = 1, **kwargs: bool) -> list[NBest]:
    stepper = TorchEngine(model, torch.device("cpu")).start(sources, np.ones(len(sources), dtype=np.int64))
    limits = np.array([len(source) + 6 for source in sources])
    return beam_search(stepper, limits, beam=beam, n_best=n_best, **kwargs)


def test_a_beam_of_one_is_greedy_decoding(model: Transformer, sources: list[list[int]]) -> None:
    ones = np.ones(len(sources), dtype=np.int64)
    limits = np.array([len(source) + 6 for source in sources])
    greedy = decode_segments(TorchEngine(model, torch.device("cpu")).start(sources, ones), ones, limits)
    found = search(model, sources, beam=1)
    closed = [result.best.closed for result in found]
    assert any(closed)
    assert not all(closed)  # both ways of ending are met
    for one, other in zip(greedy, found, strict=True):
        assert other.best.tokens + [EOS] * other.best.closed == one.segments[0]
        assert other.best.token_log_probs == pytest.approx(one.log_probs[0], abs=1e-5)
        assert other.steps == one.steps


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("sharpness", [0.5, 2.0])
def test_a_wide_beam_is_exhaustive_search(alpha: float, sharpness: float) -> None:
    limits = np.array([1, 2, 3, 4, 5])
    stepper = TableStepper([10, 11, 12, 13, 14], sharpness)
    for sentence, limit, result in zip(
        [10, 11, 12, 13, 14],
        limits,
        beam_search(stepper, limits, beam=400, alpha=alpha, n_best=7),
        strict=True,
    ):
        expected = exhaustive(TableStepper([], sharpness), sentence, int(limit), alpha)[:7]
        assert [tuple(h.tokens) for h in result.hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in result.hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-5)


def test_a_narrow_beam_misses_what_a_wide_one_finds() -> None:
    sentences, limits = list(range(30)), np.full(30, 5)
    scores = [
        [result.best.score for result in beam_search(TableStepper(sentences.copy()), limits, beam=beam)]
        for beam in (1, 300)
    ]
    narrow, wide = np.array(scores)
    assert (narrow <= wide + 1e-9).all()
    assert (narrow < wide - 1e-3).any()


@pytest.mark.parametrize("n_best", [1, 4])
def test_reported_scores_are_those_of_the_parallel_pass(
    model: Transformer, sources: list[list[int]], n_best: int
) -> None:
    results = search(model, sources, n_best=n_best)
    found = [(source, h) for source, result in zip(sources, results, strict=True) for h in result.hypotheses]
    assert sum(h.closed for _, h in found) > 10
    assert sum(not h.closed for _, h in found) > 10
    for (_, h), again in zip(found, score_pairs(model, [(source, h.tokens) for source, h in found]), strict=True):
        summed = again.log_probs[0][: len(h.tokens) + h.closed]  # one that was cut off never reached its EOS
        assert h.token_log_probs == pytest.approx(summed, abs=1e-4)
        assert h.score == pytest.approx(sum(summed) / ((5 + len(summed)) / 6) ** 0.6, abs=1e-4)


@pytest.fixture(scope="module")
def alone(model: Transformer, sources: list[list[int]]) -> list[NBest]:
    return [search(model, [source], n_best=3)[0] for source in sources]


@pytest.mark.parametrize("size", [2, 3, 7, 40])
def test_sentences_do_not_notice_their_batch(
    model: Transformer, sources: list[list[int]], alone: list[NBest], size: int
) -> None:
    order = np.random.default_rng(size).permutation(len(sources))
    for first in range(0, len(sources), size):
        batch = order[first : first + size]
        for at, result in zip(batch, search(model, [sources[i] for i in batch], n_best=3), strict=True):
            assert [h.tokens for h in result.hypotheses] == [h.tokens for h in alone[at].hypotheses]
            assert [h.score for h in result.hypotheses] == pytest.approx(
                [h.score for h in alone[at].hypotheses], abs=1e-5
            )
            assert result.steps == alone[at].steps


def test_n_best_lists_are_sorted_distinct_and_consistent(model: Transformer, sources: list[list[int]]) -> None:
    for source, result in zip(sources, search(model, sources, n_best=4), strict=True):
        scores = [h.score for h in result.hypotheses]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert len({(*h.tokens, h.closed) for h in result.hypotheses}) == 4
        assert result.best is result.hypotheses[0]
        for h in result.hypotheses:
            n_summed = len(h.token_log_probs)
            assert n_summed == len(h.tokens) + h.closed <= result.steps <= len(source) + 6
            assert h.closed or n_summed == len(source) + 6
            assert h.log_prob == pytest.approx(sum(h.token_log_probs))
            assert h.score == pytest.approx(h.log_prob / float(penalty(np.array(n_summed), 0.6)))
            assert min(h.tokens, default=N_SPECIAL) >= N_SPECIAL


@pytest.mark.parametrize("n_best", [1, 2, 4])
def test_stopping_early_changes_nothing_but_the_steps(
    model: Transformer, sources: list[list[int]], n_best: int
) -> None:
    early = search(model, sources, n_best=n_best)
    late = search(model, sources, n_best=n_best, stop_early=False)
    for one, other in zip(early, late, strict=True):
        assert [h.tokens for h in one.hypotheses] == [h.tokens for h in other.hypotheses]
        assert one.steps <= other.steps
    assert sum(r.steps for r in early) < sum(r.steps for r in late)


@pytest.mark.parametrize("alpha", [0.6, 2.0])
@pytest.mark.parametrize("n_best", [1, 3])
def test_a_long_hypothesis_may_win_late(alpha: float, n_best: int) -> None:
    """The longer an open hypothesis may get, the more its score may rise: stopping must reckon with that."""
    sentences, limits = list(range(60)), np.arange(60) % 7 + 4
    early, late = (
        beam_search(TableStepper(sentences.copy()), limits, 3, alpha, n_best, stop_early)
        for stop_early in (True, False)
    )
    assert [r.hypotheses for r in early] == [r.hypotheses for r in late]
    assert sum(r.steps for r in early) < sum(r.steps for r in late)


def test_a_search_asks_for_more_of_its_best_list_than_of_its_winner(
    model: Transformer, sources: list[list[int]]
) -> None:
    winners, lists = search(model, sources, n_best=1), search(model, sources, n_best=4)
    assert [r.best.tokens for r in winners] == [r.best.tokens for r in lists]
    assert sum(r.steps for r in winners) < sum(r.steps for r in lists)


def test_the_cache_is_copied_only_when_places_change() -> None:
    class Certain(TableStepper):
        def table(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
            if len(prefix) == 1:  # two good beginnings, then each goes on in its own way
                return np.log([1e-9, 0.5, 0.5 - 2e-9, 1e-9])
            return np.log([1e-9, 1e-9, 1e-9, 1 - 3e-9]) if len(prefix) < 5 else np.log([1 - 3e-9, 1e-9, 1e-9, 1e-9])

    stepper = Certain([0, 0, 0])
    found = beam_search(stepper, np.array([9, 9, 9]), beam=2, n_best=2)
    assert [h.tokens for h in found[1].hypotheses] == [[A, C, C, C], [B, C, C, C]]
    assert stepper.kept == [[0, 0, 1, 1, 2, 2]]


def test_a_beam_wider_than_what_may_be_written_has_empty_slots() -> None:
    torch.manual_seed(5)
    config = ModelConfig(d_model=8, d_hidden=8, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=7)
    results = search(Transformer(config), [[5, 6], [6]], beam=6, n_best=6)  # only 5, 6 and EOS may be written
    for result in results:
        assert len({(*h.tokens, h.closed) for h in result.hypotheses}) == len(result.hypotheses) == 6
        assert all(np.isfinite(h.token_log_probs).all() and set(h.tokens) <= {5, 6} for h in result.hypotheses)


def test_finished_sentences_leave_the_batch() -> None:
    stepper = TableStepper([1, 2, 3, 4])
    beam_search(stepper, np.array([1, 5, 1, 3]), beam=3)
    assert sorted(set(stepper.kept[0])) == [1, 3]  # those of one step were left behind at once


def test_no_sentences_no_results() -> None:
    assert beam_search(TableStepper([]), np.zeros(0, dtype=np.int64)) == []
