"""The paper's idea in pure functions: divide a target into segments, and put segments together again.

A segment is a list of token ids closed by EOS, or by DEL when it repeats its left neighbour.
A target, in training and in decoding, is a set of rows: row (t, i) carries the previous token of
segment i (BOS at t = 0) and predicts token t of segment i. It sees every row of an earlier or the same
step, in all segments (Eq. 3).

    divide_many -> rows -> (model) -> segments -> assemble

What is divided and assembled again is the target, whatever the draws (`tests/unit/test_segments.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from recoversat.vocab import BOS, DEL, EOS, PAD, TERMINATORS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

# What the draws of a sentence decide, in this order; one key per token for RAND follows.
_DRAW_RANDOM, _DRAW_REPEAT, _DRAW_WHICH, _DRAW_COPIED, N_FIXED_DRAWS = range(5)


def equal_cuts(lengths: Ints, n_segments: Ints, width: int) -> Ints:
    """Cut at ceil(i * T / K), i = 1 .. width; cuts past K - 1 fall at T (EQUAL of Section 3.2.1).

    >>> equal_cuts(np.array([8, 2]), np.array([3, 5]), 4).tolist()
    [[3, 6, 8, 8], [1, 1, 2, 2]]
    """
    i = np.arange(1, width + 1)[None, :]
    cuts = -(-i * lengths[:, None] // n_segments[:, None])
    return np.where(i < n_segments[:, None], cuts, lengths[:, None])


def random_cuts(lengths: Ints, n_segments: Ints, width: int, keys: Floats, allowed: Bools | None = None) -> Ints:
    """Cut at K - 1 distinct places of [1, T], those of the smallest keys; missing ones fall at T (RAND).

    >>> keys = np.array([[0.5, 0.1, 0.9, 0.3]])   # of cutting after token 1, 2, 3, 4
    >>> random_cuts(np.array([4]), np.array([3]), 2, keys).tolist()
    [[2, 4]]
    """
    places = np.arange(1, keys.shape[1] + 1)[None, :]
    eligible = places <= lengths[:, None]
    if allowed is not None:
        eligible &= allowed
    ranked = np.argsort(np.where(eligible, keys, np.inf), axis=1, kind="stable")[:, :width]
    ranked = np.pad(ranked, ((0, 0), (0, width - ranked.shape[1])))
    rank = np.arange(width)[None, :]
    chosen = rank < np.minimum(n_segments - 1, eligible.sum(axis=1))[:, None]
    return np.sort(np.where(chosen, ranked + 1, lengths[:, None]), axis=1)


@dataclass(frozen=True)
class Division:
    """Where each segment's tokens lie in its target: arrays of (sentences, segments).

    Sentences with fewer than the widest K have `exists` false at the end. At most one segment of a
    sentence is a copy: it starts where its left neighbour starts and is closed by DEL.
    """

    start: Ints
    length: Ints
    is_copy: Bools
    exists: Bools
    stride: Ints  # (sentences,) from one token of a segment to its next in the target


def divide_many(
    lengths: Ints, n_segments: Ints, random_prob: float, repeat_prob: float, draws: Floats, may_cut: Bools | None = None
) -> Division:
    """Divide a batch of targets into K segments each, K per sentence.

    `draws` holds N_FIXED_DRAWS + max(T) numbers a sentence. `may_cut[b, c - 1]` says whether a cut after
    token c may stand there (cut_at = "word"); the end of the target always may.

    >>> evenly = divide_many(np.array([5]), np.array([2]), random_prob=0, repeat_prob=0, draws=np.zeros((1, 10)))
    >>> evenly.start.tolist(), evenly.length.tolist()
    ([[0, 3]], [[3, 2]])
    >>> repeated = divide_many(np.array([5]), np.array([3]), random_prob=0, repeat_prob=1, draws=np.zeros((1, 10)))
    >>> repeated.start.tolist(), repeated.length.tolist(), repeated.is_copy.tolist()
    ([[0, 0, 3]], [[3, 1, 2]], [[False, True, False]])
    """
    repeats = (draws[:, _DRAW_REPEAT] < repeat_prob) & (n_segments > 1) & (lengths > 0)
    parts = n_segments - repeats  # a repetition takes the place of one segment
    width = int(n_segments.max())
    keys = draws[:, N_FIXED_DRAWS : N_FIXED_DRAWS + int(lengths.max(initial=0))]
    even = equal_cuts(lengths, parts, width)
    if may_cut is not None:
        may_cut = may_cut | (np.arange(1, may_cut.shape[1] + 1)[None, :] == lengths[:, None])
        even = _next_allowed(even, lengths, may_cut)
    uneven = random_cuts(lengths, parts, width, keys, may_cut)
    at_random = draws[:, _DRAW_RANDOM] < random_prob
    cuts = np.where(at_random[:, None], uneven, even)
    start = np.concatenate([np.zeros_like(cuts[:, :1]), cuts[:, :-1]], axis=1)
    exists = np.arange(width)[None, :] < n_segments[:, None]
    division = Division(start, cuts - start, np.zeros(cuts.shape, bool), exists, np.ones_like(lengths))
    return _insert_copies(division, repeats, draws)


def deal_many(lengths: Ints, n_segments: Ints) -> Division:
    """Deal tokens out to K segments in turn: token j is number j // K of segment j % K (SAT, docs/neighbours.md).

    The rows of a step then are K consecutive tokens, which see all before them.

    >>> dealt = deal_many(np.array([5]), np.array([2]))
    >>> dealt.start.tolist(), dealt.length.tolist(), dealt.stride.tolist()
    ([[0, 1]], [[3, 2]], [2])
    """
    start = np.broadcast_to(np.arange(int(n_segments.max())), (len(lengths), int(n_segments.max())))
    exists = start < n_segments[:, None]
    length = np.maximum(-(-(lengths[:, None] - start) // n_segments[:, None]), 0)
    return Division(start, length, np.zeros(start.shape, bool), exists, n_segments)


@dataclass(frozen=True)
class Rows:
    """One sentence's decoder rows; a label of PAD is not trained."""

    tokens: Ints
    labels: Ints
    steps: Ints
    segments: Ints


def rows(segments: Sequence[Sequence[int]], train_on_copies: bool = False) -> Rows:
    """Turn closed segments into rows, segment after segment.

    >>> r = rows([[11, 12, EOS], [11, DEL]])
    >>> r.tokens.tolist(), r.labels.tolist()        # the copied 11 is not trained, its DEL is
    ([1, 11, 12, 1, 11], [11, 12, 2, 0, 4])
    >>> r.steps.tolist(), r.segments.tolist()
    ([0, 1, 2, 0, 1], [0, 0, 0, 1, 1])
    """
    each: list[tuple[int, int, int, int]] = []
    for owner, segment in enumerate(segments):
        untrained = segment[-1] == DEL and not train_on_copies
        labels = [PAD] * (len(segment) - 1) + [DEL] if untrained else segment
        each += zip([BOS, *segment[:-1]], labels, range(len(segment)), repeat(owner), strict=False)
    return Rows(*np.array(each, dtype=np.int64).reshape(-1, 4).T.copy())


def visible(query_steps: Ints, key_steps: Ints) -> Bools:
    """Say which rows a row may look at: those of the same or an earlier step, in every segment (Eq. 3).

    >>> visible(np.array([0, 1, 0]), np.array([0, 1, 0])).astype(int).tolist()
    [[1, 0, 1], [1, 1, 1], [1, 0, 1]]
    """
    return key_steps[None, :] <= query_steps[:, None]


def assemble(segments: Sequence[Sequence[int]]) -> list[int]:
    """Join segments into a translation, leaving out those that end in DEL.

    A segment cut off at its maximum has no closing token and is kept.

    >>> assemble([[11, 12, EOS], [11, DEL], [13, EOS], [EOS], [14]])
    [11, 12, 13, 14]
    """
    kept = [segment for segment in segments if not (segment and segment[-1] == DEL)]
    return [token for segment in kept for token in segment if token != EOS]


def reading_order(segments: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return (segment, position) of tokens that were dealt out in turn, as they are read: to the first end, with it.

    >>> reading_order([[11, 13, EOS], [12, EOS]])
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    order = []
    for position in range(max(map(len, segments))):
        for owner, segment in enumerate(segments):
            order.append((owner, position))
            if segment[position] in TERMINATORS:
                return order
    return order


def _next_allowed(cuts: Ints, lengths: Ints, may_cut: Bools) -> Ints:
    """Move each cut right to the next place where one may stand, at the latest to T."""
    width = int(lengths.max(initial=0))
    places = np.arange(width + 1)[None, :]
    allowed = np.concatenate([np.ones((len(cuts), 1), bool), may_cut[:, :width]], axis=1)
    allowed |= places >= lengths[:, None]
    nearest = np.minimum.accumulate(np.where(allowed, places, width)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.minimum(np.take_along_axis(nearest, np.minimum(cuts, width), axis=1), lengths[:, None]))


def _insert_copies(division: Division, repeats: Bools, draws: Floats) -> Division:
    """Insert to the right of a random non-empty segment a copy of its first m tokens (Section 3.2.2)."""
    if not repeats.any():
        return division
    filled = division.length > 0
    pick = (draws[:, _DRAW_WHICH] * filled.sum(axis=1)).astype(np.int64)
    chosen = np.argmax(filled.cumsum(axis=1) == pick[:, None] + 1, axis=1)[:, None]
    copied = 1 + (draws[:, _DRAW_COPIED, None] * np.take_along_axis(division.length, chosen, 1)).astype(np.int64)
    index = np.arange(division.length.shape[1])[None, :]
    shifted = index - (repeats[:, None] & (index > chosen))
    is_copy = repeats[:, None] & (index == chosen + 1)
    return replace(
        division,
        start=np.take_along_axis(division.start, shifted, 1),
        length=np.where(is_copy, copied, np.take_along_axis(division.length, shifted, 1)),
        is_copy=is_copy,
    )
