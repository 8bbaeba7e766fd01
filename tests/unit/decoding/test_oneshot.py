"""One-step decoding with scripted models and teachers."""

from collections.abc import Sequence

import numpy as np
import pytest

from recoversat.decoding.oneshot import decode_lengths, decode_once, length_candidates
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.vocab import EOS, N_SPECIAL


def words(results: list[Decoded]) -> list[list[int]]:
    """Return the tokens of each, without the EOS that closes them."""
    assert all(result.segments[0][-1] == EOS and result.steps == 1 for result in results)
    return [result.segments[0][:-1] for result in results]


SOURCES = [[11, 12], [21, 22, 23, 24], [31]]


class Repeater:
    """Writes the first token of the source as often as it is told to; predicts the source's length."""

    def __init__(self, sources: Sequence[Sequence[int]]) -> None:
        self.sources = sources
        self.asked: list[tuple[list[int], list[int]]] = []

    def likeliest_lengths(self, n: int) -> Ints:
        return np.array([[len(source)] * n for source in self.sources])

    def fill(self, members: Ints, tokens: Ints, lengths: Ints, least: int = N_SPECIAL) -> tuple[Ints, Floats]:
        self.asked.append((members.tolist(), lengths.tolist()))
        first = np.array([source[0] for source in self.sources])[members, None]
        assert (tokens[:, :1] == first).all()  # what each place carries is copied from its source
        return first + 0 * tokens, np.broadcast_to(-0.1 * lengths[:, None], tokens.shape)


def test_one_step_writes_the_predicted_length_and_keeps_repetitions() -> None:
    writer = Repeater(SOURCES)
    results = decode_once(writer, SOURCES)
    assert words(results) == [[11, 11], [21, 21, 21, 21], [31]]
    assert results[0].log_probs == [[-0.2, -0.2]]
    assert writer.asked == [([0, 1, 2], [2, 4, 1])]


@pytest.mark.parametrize("favourite", [1, 2, 3, 4, 5, 6])
def test_the_teachers_favourite_length_wins(favourite: int) -> None:
    """Every sentence is tried in lengths that include the favourite, and the teacher hates all others."""

    def score(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        assert [source[0] for source in sources] == [target[0] for target in targets]
        return [-1.0 * (len(t) + 1) if len(t) == favourite else -2.0 * (len(t) + 1) for t in targets]

    results = decode_lengths(Repeater(SOURCES), SOURCES, score, n_lengths=11)
    assert words(results) == [[11] * favourite, [21] * favourite, [31] * favourite]
    assert [result.log_probs for result in results] == [[[-0.1 * favourite] * favourite]] * 3


def test_each_sentence_has_its_own_favourite() -> None:
    wanted = {11: 3, 21: 2, 31: 1}

    def score(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        return [-float(abs(len(t) - wanted[s[0]])) for s, t in zip(sources, targets, strict=True)]

    results = decode_lengths(Repeater(SOURCES), SOURCES, score, n_lengths=5)
    assert [len(tokens) for tokens in words(results)] == [3, 2, 1]


def test_sums_are_compared_by_token_with_eos() -> None:
    # by sum the short one wins (-3 > -4); by token with EOS the long one does (-3/2 < -4/4)
    def score(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        return [{1: -3.0, 2: -30.0, 3: -4.0}[len(t)] for t in targets]

    assert words(decode_lengths(Repeater([[11, 12]]), [[11, 12]], score, n_lengths=3)) == [[11, 11, 11]]


def test_all_candidates_are_written_in_one_batch_and_ties_go_to_the_predicted_length() -> None:
    writer = Repeater(SOURCES)

    def indifferent(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        return [-1.0 * (len(t) + 1) for t in targets]

    results = decode_lengths(writer, SOURCES, indifferent, n_lengths=3)
    assert writer.asked == [([0, 0, 0, 1, 1, 1, 2, 2, 2], [2, 1, 3, 4, 3, 5, 1, 2, 3])]
    assert [len(tokens) for tokens in words(results)] == [2, 4, 1]


def test_one_candidate_is_one_step_decoding() -> None:
    def score(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        return [-1.0] * len(targets)

    tried = decode_lengths(Repeater(SOURCES), SOURCES, score, n_lengths=1)
    assert tried == decode_once(Repeater(SOURCES), SOURCES)


@pytest.mark.parametrize("n", [1, 2, 5, 9, 20])
def test_candidates_are_distinct_positive_and_begin_with_the_predicted_length(n: int) -> None:
    predicted = np.arange(1, 30)
    candidates = length_candidates(predicted, n)
    assert candidates.shape == (29, n)
    assert candidates.min() >= 1
    assert all(len(set(line)) == n for line in candidates.tolist())
    assert (candidates[:, 0] == predicted).all()
    assert (candidates.max(axis=1) - candidates.min(axis=1) == n - 1).all()
