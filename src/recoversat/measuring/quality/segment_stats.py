"""How a system wrote: decoding steps, segment lengths, deletions, segments cut off at the maximum."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recoversat.measuring.quality.outputs import SegmentStat


@dataclass(frozen=True)
class StepSummary:
    """Step of the paper: the mean over sentences, and how many sentences took how many steps."""

    mean: float
    counts: dict[int, int]


@dataclass(frozen=True)
class SegmentSummary:
    """Shares are of all segments; the lengths are of the segments that stayed, empty ones included."""

    total: int
    deleted_share: float
    cut_share: float
    length_counts: dict[int, int]


def summarise_steps(steps: Sequence[int]) -> StepSummary:
    """Average the steps of a test set and count them.

    >>> summarise_steps([4, 5, 4, 7])
    StepSummary(mean=5.0, counts={4: 2, 5: 1, 7: 1})
    """
    return StepSummary(sum(steps) / len(steps) if steps else 0.0, _counted(steps))


def summarise_segments(sentences: Sequence[Sequence[SegmentStat]]) -> SegmentSummary:
    """Pool the segments of all sentences."""
    pooled = [segment for segments in sentences for segment in segments]
    endings = Counter(segment.ending for segment in pooled)
    deleted, cut = (endings[ending] / len(pooled) if pooled else 0.0 for ending in ("del", "cut"))
    return SegmentSummary(len(pooled), deleted, cut, _counted(one.length for one in pooled if one.ending != "del"))


def _counted(values: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(values).items()))
