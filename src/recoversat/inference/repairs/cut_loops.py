"""A model at a loss says the same thing again and again; a reader wants it once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import eq

from recoversat.config import QUALITIES
from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write
from recoversat.vocab import TERMINATORS

_LONGEST = 6  # tokens of what is repeated
_LOOP = 4  # times in a row: language itself says things twice, and sometimes three times


class CutLoops(Repair):
    """Write again in two segments, each with its own end, what one did not end; leave out what only repeats."""

    def doubts(self, draft: Draft) -> bool:
        return len(draft.decoded.segments) == 1 and not _has_ended(draft) and self._fewest > 1

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        plainly = self.request.decode.model_copy(update=QUALITIES["fast"])
        request = replace(self.request, segments=self._fewest, beam=1, decode=plainly)
        return write([draft.source.text for draft in drafts], request)

    def is_better(self, again: Draft, first: Draft) -> bool:
        return _has_ended(again) and bool(again.text.strip())

    @property
    def _fewest(self) -> int:
        """The smallest K of several segments that the model knows; 1 where it knows none."""
        return min((k for k in self.translator.config.train.segment_choices if k > 1), default=1)

    def mend(self, draft: Draft) -> Draft:
        kept = without_loops(draft.ids, draft.source.ids)
        if len(kept) == len(draft.ids):
            return draft
        places = draft.places()
        return draft.without(set(places).difference(places[at] for at in kept))


def _has_ended(draft: Draft) -> bool:
    return all(segment and segment[-1] in TERMINATORS for segment in draft.decoded.segments)


def most_repeats(ids: Sequence[int]) -> int:
    """Return how many times in a row a token, or up to six of them, occur at most.

    >>> most_repeats([1, 2, 3]), most_repeats([7, 1, 2, 1, 2, 1, 2, 9]), most_repeats([5, 5, 5, 5])
    (1, 3, 4)
    """
    return max((times for size in range(1, _LONGEST + 1) for _, _, times in _repeats(ids, size)), default=1)


def without_loops(ids: Sequence[int], source: Sequence[int]) -> list[int]:
    """Return which tokens stay when what is said four times in a row or more, and more often than the source says
    anything, is said just as often as in the source.

    The zeros of a number are such repeats too: one too many must not cost the others.

    >>> without_loops([8, 9, 9, 9, 9, 9, 3], source=[1, 2])
    [0, 1, 6]
    >>> without_loops([6, 0, 0, 0, 0, 0, 7], source=[6, 0, 0, 0, 0, 7])
    [0, 1, 2, 3, 4, 6]
    """
    kept = list(range(len(ids)))
    if not _may_loop(ids) or most_repeats(ids) < _LOOP:
        return kept
    said = most_repeats(source)
    for size in range(1, _LONGEST + 1):
        for start, stop, times in reversed(_repeats([ids[at] for at in kept], size)):
            if times > max(_LOOP - 1, said):
                del kept[start + size * said : stop]
    return kept


def _may_loop(ids: Sequence[int]) -> bool:
    """Tell fast whether so many tokens stand a few places after their like that some may be a loop."""
    if len(ids) - len(set(ids)) < _LOOP - 1:
        return False
    return any(sum(map(eq, ids, ids[size:])) >= size * (_LOOP - 1) for size in range(1, _LONGEST + 1))


def _repeats(ids: Sequence[int], size: int) -> list[tuple[int, int, int]]:
    """Find where `size` tokens are repeated at once: start, stop, and how many times they stand there."""
    found, at = [], 0
    for same, group in groupby(ids[i] == ids[i + size] for i in range(len(ids) - size)):
        length = sum(1 for _ in group)
        if same and (times := length // size + 1) > 1:
            found.append((at, at + size * times, times))
        at += length
    return found
