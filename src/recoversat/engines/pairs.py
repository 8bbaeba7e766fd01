"""Ids as engines want them: lines side by side, and given targets on their way to being scored and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.decoding.stopping import between_steps
from recoversat.errors import UserError
from recoversat.segments import Rows, equal_cuts, rows
from recoversat.vocab import DEL, EOS, PAD

T = TypeVar("T")
Lines = Sequence[Sequence[int] | Ints]
Pair = tuple[Sequence[int], Sequence[int]]  # ids of source and target, without BOS and EOS


def side_by_side(lines: Lines) -> Ints:
    """Lay lines of ids below each other, padded with PAD at the end.

    >>> side_by_side([[7, 8, 9], [7]]).tolist()
    [[7, 8, 9], [7, 0, 0]]
    """
    padded = np.full((len(lines), max(len(line) for line in lines)), PAD, dtype=np.int64)
    for row, line in zip(padded, lines, strict=True):
        row[: len(line)] = line
    return padded


def check_pairs(pairs: Sequence[Pair]) -> None:
    """Refuse an empty source by its number."""
    for number, (source, _) in enumerate(pairs, start=1):
        if not len(source):
            raise UserError(f"pair {number}: its source is empty; leave empty lines out before scoring")


def equal_rows(target: Sequence[int], n_segments: int) -> Rows:
    """Return the rows of a target that is closed after each of K equal parts (EQUAL of Section 3.2.1).

    >>> equal_rows([11, 12, 13], 2).labels.tolist(), equal_rows([11, 12, 13], 1).labels.tolist()
    ([11, 12, 2, 13, 2], [11, 12, 13, 2])
    """
    cuts = equal_cuts(np.array([len(target)]), np.array([n_segments]), n_segments)[0].tolist()
    return rows([[*target[start:end], EOS] for start, end in zip([0, *cuts[:-1]], cuts, strict=True)])


def deleting_rows(target: Sequence[int]) -> Rows:
    """Return the rows of one segment with DEL as the label of each.

    >>> deleting_rows([11, 12]).tokens.tolist(), deleting_rows([11, 12]).labels.tolist()
    ([1, 11, 12], [4, 4, 4])
    """
    own = equal_rows(target, 1)
    return replace(own, labels=np.full_like(own.labels, DEL))


def pair_batches(pairs: Sequence[Pair], n_segments: int, most_rows: int) -> Iterator[list[int]]:
    """Group pairs of like length, shortest first; a batch has at most so many rows or source tokens, padding included.

    >>> list(pair_batches([([5] * 4, [6]), ([5], [6]), ([5], [6, 7])], 1, 6))
    [[1, 2], [0]]
    """
    sizes = np.array([max(len(source), len(target) + n_segments) for source, target in pairs], dtype=np.int64)
    batch: list[int] = []
    for at in np.argsort(sizes, kind="stable").tolist():
        if batch and (len(batch) + 1) * int(sizes[at]) > most_rows:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def in_batches(
    pairs: Sequence[Pair], n_segments: int, most_rows: int, work: Callable[[list[int]], Iterable[T]]
) -> list[T]:
    """Work on batches of pairs, given by their numbers; what comes back is in the order of the pairs."""
    check_pairs(pairs)
    found: dict[int, T] = {}
    for batch in pair_batches(pairs, n_segments, most_rows):
        between_steps()
        found |= zip(batch, work(batch), strict=True)
    return [found[i] for i in range(len(pairs))]


def scored(target: Rows, log_probs: Sequence[float]) -> Decoded:
    """Say what was given, and how likely it was, as if it had been written.

    >>> scored(equal_rows([11], 2), [-1.0, -2.0, -3.0])
    Decoded(segments=[[11, 2], [2]], log_probs=[[-1.0, -2.0], [-3.0]], steps=2, top_tokens=[], judged=[])
    """
    starts = np.flatnonzero(target.steps == 0).tolist()
    ends, tokens = [*starts[1:], len(log_probs)], target.labels.tolist()
    cuts = [slice(*bounds) for bounds in zip(starts, ends, strict=True)]
    return Decoded([tokens[cut] for cut in cuts], [list(log_probs[cut]) for cut in cuts], int(target.steps.max()) + 1)
