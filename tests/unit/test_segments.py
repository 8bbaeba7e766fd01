"""Targets are divided as the paper says (tests/oracles.py), and assemble(divide(y)) == y whatever chance decides."""

from fractions import Fraction
from itertools import permutations, product
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.segments import N_FIXED_DRAWS, Floats, assemble, divide_many, equal_cuts, random_cuts, rows, visible
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, PAD
from tests import oracles

tokens = st.lists(st.integers(N_SPECIAL, 60), min_size=1, max_size=40)
probabilities = st.sampled_from([0.0, 0.3, 0.5, 1.0])
Segments = list[list[int]]


def divided(
    targets: list[list[int]], ks: list[int], p: float, q: float, draws: Floats, may_cut: list[list[bool]] | None = None
) -> list[Segments]:
    """Divide a batch, and spell the segments of each target."""
    lengths = np.array([len(target) for target in targets])
    allowed = None
    if may_cut is not None:
        allowed = np.zeros((len(targets), int(lengths.max())), dtype=bool)
        for row, own in zip(allowed, may_cut, strict=True):
            row[: len(own)] = own
    found = divide_many(lengths, np.array(ks), p, q, draws, allowed)
    return [
        [
            [*target[start : start + length], DEL if is_copy else EOS]
            for start, length, is_copy in zip(*columns, strict=True)
        ]
        for target, k, *arrays in zip(targets, ks, found.start, found.length, found.is_copy, strict=True)
        for columns in [[array[:k].tolist() for array in arrays]]
    ]


def draws_of(seed: int, targets: list[list[int]]) -> Floats:
    return np.random.default_rng(seed).random((len(targets), N_FIXED_DRAWS + max(map(len, targets))))


@given(tokens, st.integers(1, 12), probabilities, probabilities, st.integers(0, 2**32))
def test_theorem(target: list[int], k: int, p: float, q: float, seed: int) -> None:
    (segments,) = divided([target], [k], p, q, draws_of(seed, [target]))
    assert assemble(segments) == target == oracles.assemble(segments)
    assert len(segments) == k
    assert sum(segment[-1] == DEL for segment in segments) <= 1
    assert all(segment[-1] in (EOS, DEL) for segment in segments)
    assert not {EOS, DEL} & {token for segment in segments for token in segment[:-1]}


@given(
    st.lists(st.tuples(tokens, st.integers(1, 12)), min_size=1, max_size=4),
    probabilities,
    probabilities,
    st.integers(0, 2**32),
    st.booleans(),
)
def test_a_batch_is_divided_as_the_paper_divides_its_sentences(
    batch: list[tuple[list[int], int]], p: float, q: float, seed: int, at_words: bool
) -> None:
    targets, ks = [target for target, _ in batch], [k for _, k in batch]
    draws = draws_of(seed, targets)
    may_cut = [[token % 3 == 0 for token in target] for target in targets] if at_words else None
    for at, found in enumerate(divided(targets, ks, p, q, draws, may_cut)):
        own = may_cut[at] if may_cut else None
        numbers = draws[at, : N_FIXED_DRAWS + len(targets[at])].tolist()
        assert found == oracles.divided_by(targets[at], ks[at], p, q, numbers, own)


def every_draw(length: int, k: int, p: Fraction, q: Fraction) -> Floats:
    """Return draws that decide everything there is to decide equally often, in every combination."""

    def middles(n: int) -> list[float]:
        return [(i + 0.5) / n for i in range(n)]

    which = middles(lcm(*range(1, min(length, k) + 1)))
    how_many = middles(lcm(*range(1, length + 1)))
    fixed = product(middles(p.denominator), middles(q.denominator), which, how_many)
    return np.array([[*some, *keys] for some, keys in product(fixed, permutations(middles(length)))])


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_division_is_as_likely_as_the_paper_says(length: int, k: int) -> None:
    """No luck: all draws are tried, and each outcome is counted."""
    p, q, target = Fraction(1, 2), Fraction(1, 3), list(range(11, 11 + length))
    draws = every_draw(length, k, p, q)
    masks = [None, *map(list, product([False, True], repeat=length))] if length < 4 else [None, [True, False] * 2]
    for may_cut in masks:
        allowed = None if may_cut is None else np.array([may_cut] * len(draws))
        found = divide_many(np.full(len(draws), length), np.full(len(draws), k), float(p), float(q), draws, allowed)
        columns = np.concatenate([found.start, found.length, found.is_copy], axis=1)
        outcomes, counts = np.unique(columns, axis=0, return_counts=True)
        shares: dict[tuple[tuple[int, ...], ...], Fraction] = {}
        for outcome, count in zip(outcomes.tolist(), counts.tolist(), strict=True):
            each = zip(outcome[:k], outcome[k : 2 * k], outcome[2 * k :], strict=True)
            spelt = tuple((*target[at : at + size], DEL if is_copy else EOS) for at, size, is_copy in each)
            shares[spelt] = shares.get(spelt, Fraction()) + Fraction(count, len(draws))
        assert shares == oracles.every_division(target, k, p, q, may_cut)


@given(tokens, st.integers(2, 12), probabilities, st.integers(0, 2**32))
def test_a_repetition_copies_the_start_of_its_left_neighbour(target: list[int], k: int, p: float, seed: int) -> None:
    (segments,) = divided([target], [k], p, 1.0, draws_of(seed, [target]))
    (at,) = [i for i, segment in enumerate(segments) if segment[-1] == DEL]
    copied, original = segments[at][:-1], segments[at - 1][:-1]
    assert at >= 1
    assert 1 <= len(copied) <= len(original)
    assert copied == original[: len(copied)]


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


def test_corner_cases_by_hand() -> None:
    def divide(target: list[int], k: int, p: float, q: float) -> Segments:
        return divided([target], [k], p, q, draws_of(0, [target]))[0]

    assert divide([9], 1, 1.0, 1.0) == [[9, EOS]]  # K = 1: no division, no repetition
    assert divide([9], 3, 0.0, 0.0) == [[9, EOS], [EOS], [EOS]]  # T = 1
    assert divide([8, 9], 5, 1.0, 0.0) == [[8, EOS], [9, EOS], [EOS], [EOS], [EOS]]  # T < K
    first, copy = divide([7, 8, 9], 2, 0.5, 1.0)  # K = 2 with a repetition: one segment and its copy
    assert first == [7, 8, 9, EOS]
    assert copy[-1] == DEL


def test_rows_of_the_papers_example() -> None:
    segments = [[11, 12, EOS], [13, 14, 15, EOS], [13, 14, DEL], [16, 17, 18, EOS]]
    r = rows(segments)
    assert r.tokens.tolist() == [BOS, 11, 12, BOS, 13, 14, 15, BOS, 13, 14, BOS, 16, 17, 18]
    assert r.labels.tolist() == [11, 12, EOS, 13, 14, 15, EOS, PAD, PAD, DEL, 16, 17, 18, EOS]
    assert r.steps.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3]
    assert r.segments.tolist() == [0] * 3 + [1] * 4 + [2] * 3 + [3] * 4
    assert rows(segments, train_on_copies=True).labels.tolist()[7:10] == [13, 14, DEL]


@given(tokens, st.integers(1, 12), st.integers(0, 2**32), st.booleans())
def test_rows_and_what_they_see_are_the_papers(target: list[int], k: int, seed: int, train_on_copies: bool) -> None:
    (segments,) = divided([target], [k], 0.5, 0.5, draws_of(seed, [target]))
    found, expected = rows(segments, train_on_copies), oracles.rows(segments, train_on_copies)
    columns = (found.tokens, found.labels, found.steps, found.segments)
    assert [tuple(row) for row in np.stack(columns, axis=1).tolist()] == expected
    mask = [[oracles.sees(query, key) for key in expected] for query in expected]
    assert visible(found.steps, found.steps).tolist() == mask


def test_one_segment_is_causal() -> None:
    steps = rows([[7, 8, 9, EOS]]).steps
    assert (visible(steps, steps) == np.tril(np.ones((4, 4), bool))).all()


def test_assemble_keeps_cut_off_segments_and_drops_deleted_ones() -> None:
    assert assemble([[5, 6], [5, DEL], [DEL], [7, EOS], []]) == [5, 6, 7]
