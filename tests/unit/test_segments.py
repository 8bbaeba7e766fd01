"""The theorem of the pure functions: assemble(divide(y)) == y, with exactly K segments and at most one DEL."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.segments import N_FIXED_DRAWS, assemble, divide_many, equal_cuts, random_cuts, rows, visible
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, PAD
from tests.oracles import divide

tokens = st.lists(st.integers(N_SPECIAL, 60), min_size=1, max_size=40)
probabilities = st.sampled_from([0.0, 0.3, 0.5, 1.0])


@given(tokens, st.integers(1, 12), probabilities, probabilities, st.integers(0, 2**32))
def test_theorem(target: list[int], k: int, p: float, q: float, seed: int) -> None:
    segments = divide(target, k, p, q, np.random.default_rng(seed))
    assert assemble(segments) == target
    assert len(segments) == k
    assert sum(segment[-1] == DEL for segment in segments) <= 1
    assert all(segment[-1] in (EOS, DEL) for segment in segments)
    assert not {EOS, DEL} & {token for segment in segments for token in segment[:-1]}


@given(tokens, st.integers(2, 12), probabilities, st.integers(0, 2**32))
def test_a_repetition_copies_the_start_of_its_left_neighbour(target: list[int], k: int, p: float, seed: int) -> None:
    segments = divide(target, k, p, 1.0, np.random.default_rng(seed))
    (at,) = [i for i, segment in enumerate(segments) if segment[-1] == DEL]
    copied, original = segments[at][:-1], segments[at - 1][:-1]
    assert at >= 1
    assert 1 <= len(copied) <= len(original)
    assert copied == original[: len(copied)]


@given(tokens, st.integers(1, 12), st.integers(0, 2**32), st.data())
def test_word_cuts_fall_only_where_they_may(target: list[int], k: int, seed: int, data: st.DataObject) -> None:
    may_cut = data.draw(st.lists(st.booleans(), min_size=len(target), max_size=len(target)))
    p = data.draw(probabilities)
    segments = divide(target, k, p, 0.0, np.random.default_rng(seed), may_cut)
    assert assemble(segments) == target
    ends = np.cumsum([len(segment) - 1 for segment in segments])
    assert all(end in (0, len(target)) or may_cut[end - 1] for end in ends)


def cuts(length: int, k: int) -> list[int]:
    return equal_cuts(np.array([length]), np.array([k]), max(k - 1, 1))[0, : k - 1].tolist()


@pytest.mark.parametrize(
    ("length", "k", "expected"),
    [
        (8, 3, [3, 6]),
        (10, 5, [2, 4, 6, 8]),
        (25, 10, [3, 5, 8, 10, 13, 15, 18, 20, 23]),
        (2, 5, [1, 1, 2, 2]),  # T < K: equal cuts coincide and leave empty segments
        (1, 3, [1, 1]),
        (7, 1, []),
    ],
)
def test_equal_is_as_printed(length: int, k: int, expected: list[int]) -> None:
    assert cuts(length, k) == expected


@given(st.integers(1, 40), st.integers(2, 12), st.integers(0, 2**32))
def test_random_cuts_are_distinct_places_from_1_to_t(length: int, k: int, seed: int) -> None:
    keys = np.random.default_rng(seed).random((1, length))
    found = random_cuts(np.array([length]), np.array([k]), k - 1, keys)[0]
    inside = found[: min(k - 1, length)]
    assert sorted(found) == found.tolist()
    assert len(set(inside)) == len(inside)
    assert 1 <= found.min() <= found.max() <= length
    assert all(found[len(inside) :] == length)  # T < K: all T cuts, the missing ones fall at T


def test_random_cuts_are_uniform() -> None:
    keys = np.random.default_rng(0).random((20_000, 5))
    found = random_cuts(np.full(20_000, 5), np.full(20_000, 3), 2, keys)
    counts = dict.fromkeys([(a, b) for a in range(1, 6) for b in range(a + 1, 6)], 0)
    for pair in map(tuple, found.tolist()):
        counts[pair] += 1
    assert min(counts.values()) > 1800  # 2,000 each, if uniform
    assert max(counts.values()) < 2200


def test_corner_cases_by_hand() -> None:
    rng = np.random.default_rng(0)
    assert divide([9], 1, 1.0, 1.0, rng) == [[9, EOS]]  # K = 1: no division, no repetition
    assert divide([9], 3, 0.0, 0.0, rng) == [[9, EOS], [EOS], [EOS]]  # T = 1
    assert divide([8, 9], 5, 1.0, 0.0, rng) == [[8, EOS], [9, EOS], [EOS], [EOS], [EOS]]  # T < K
    first, copy = divide([7, 8, 9], 2, 0.5, 1.0, rng)  # K = 2 with a repetition: one segment and its copy
    assert first == [7, 8, 9, EOS]
    assert copy[-1] == DEL


def test_repetition_is_uniform_over_non_empty_segments_and_lengths() -> None:
    draws = np.random.default_rng(1).random((30_000, N_FIXED_DRAWS + 6))
    division = divide_many(np.full(30_000, 6), np.full(30_000, 4), 0.0, 1.0, draws)
    chosen = division.is_copy.argmax(axis=1) - 1  # 0, 1 or 2: three segments of two tokens each
    copied = division.length[division.is_copy]  # m is 1 or 2
    counts = np.zeros((3, 2), dtype=int)
    np.add.at(counts, (chosen, copied - 1), 1)
    assert counts.min() > 4_700  # sixths of 30,000: which segment says nothing about m
    assert counts.max() < 5_300


@given(st.integers(0, 2**32))
def test_the_shares_of_random_and_repeated_follow_p_and_q_independently(seed: int) -> None:
    n, p, q = 4000, 0.25, 0.6
    draws = np.random.default_rng(seed).random((n, N_FIXED_DRAWS + 20))
    division = divide_many(np.full(n, 20), np.full(n, 5), p, q, draws)
    repeated = division.is_copy.any(axis=1)
    equal = np.where(repeated, 5, 4)[:, None]  # tokens a segment if 20 are divided evenly into four or five
    even = (division.is_copy | (division.length == equal)).all(axis=1)  # by chance one in 1,000 of the random ones
    for is_even, is_repeated, share in (
        (True, True, (1 - p) * q),
        (True, False, (1 - p) * (1 - q)),
        (False, True, p * q),
        (False, False, p * (1 - q)),
    ):
        assert abs(((even == is_even) & (repeated == is_repeated)).mean() - share) < 0.05


def test_rows_of_the_papers_example() -> None:
    segments = [[11, 12, EOS], [13, 14, 15, EOS], [13, 14, DEL], [16, 17, 18, EOS]]
    r = rows(segments)
    assert r.tokens.tolist() == [BOS, 11, 12, BOS, 13, 14, 15, BOS, 13, 14, BOS, 16, 17, 18]
    assert r.labels.tolist() == [11, 12, EOS, 13, 14, 15, EOS, PAD, PAD, DEL, 16, 17, 18, EOS]
    assert r.steps.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3]
    assert r.segments.tolist() == [0] * 3 + [1] * 4 + [2] * 3 + [3] * 4
    assert rows(segments, train_on_copies=True).labels.tolist()[7:10] == [13, 14, DEL]


def test_one_segment_is_causal() -> None:
    steps = rows([[7, 8, 9, EOS]]).steps
    assert (visible(steps, steps) == np.tril(np.ones((4, 4), bool))).all()


def test_assemble_keeps_cut_off_segments_and_drops_deleted_ones() -> None:
    assert assemble([[5, 6], [5, DEL], [DEL], [7, EOS], []]) == [5, 6, 7]
