"""What translating gives back: text, and how it came about."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

Ending = Literal["eos", "del", "cut"]


@dataclass(frozen=True)
class Segment:
    """One segment as it was written, deleted or not."""

    text: str
    pieces: list[str]
    ids: list[int]
    ending: Ending
    log_probs: list[float]  # of each piece, then of EOS or DEL unless it was cut off
    alternatives: list[list[tuple[str, float]]] = field(default_factory=list)
    left_out: frozenset[int] = frozenset()  # positions of tokens that a repair has taken out of the translation

    @property
    def overlap(self) -> int:
        """First tokens that the translation leaves out: what stands before says them already."""
        return next(position for position in range(len(self.ids) + 1) if position not in self.left_out)

    @property
    def kept_log_probs(self) -> list[float]:
        """Log-probabilities of what stands in the translation, its EOS included; none where it is deleted."""
        kept = [p for position, p in enumerate(self.log_probs) if position not in self.left_out]
        return [] if self.ending == "del" else kept

    @property
    def score(self) -> float:
        """Mean log-probability of the segment's tokens."""
        return float(np.mean(self.log_probs)) if self.log_probs else 0.0


@dataclass(frozen=True)
class Verified:
    """What K segments had drafted, and which tokens of the translation it had right; K = 1 corrected the others."""

    draft: list[str]  # pieces
    accepted: list[bool]  # of each token, EOS included


class LazySegments(Sequence[Segment]):
    """Segments that are spelt out when somebody looks at them: in large batches that takes longer than a GPU needs."""

    def __init__(self, count: int, spell: Callable[[int], Segment]) -> None:
        self._count, self._spell = count, spell

    @cached_property
    def _spelt(self) -> list[Segment]:
        return [self._spell(index) for index in range(self._count)]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._spelt)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._spelt[index]

    def __eq__(self, other: object) -> bool:
        return self._spelt == list(other) if isinstance(other, Sequence) else NotImplemented

    def __repr__(self) -> str:
        return repr(self._spelt)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._spelt,)  # a copy needs no tokenizer


@dataclass(frozen=True)
class Translation:
    """A translated sentence and how it came about.

    `ids` are the tokens of `text`, white space apart: those of the segments, or the text's own where a repair
    has put other words, or capitals, for what the segments say. `repairs` names all that have changed something.
    `confidence` comes from the mean log-probability of the tokens with K = 1, their EOS included, however they were
    written, so unlike `score` it can be compared between sentences. Of a calibrated model it is the probability that
    this is a good translation (docs/decoding.md), else the geometric mean of the tokens' probabilities.
    `doubtful` are the places in `text` of words that K = 1 finds unlikely. Both are empty where nobody asked.
    """

    source: str
    text: str
    segments: Sequence[Segment] = field(default_factory=list)
    steps: int = 0
    ids: list[int] = field(default_factory=list)
    repairs: tuple[str, ...] = ()
    confidence: float | None = None
    doubtful: tuple[tuple[int, int], ...] = ()
    verified: Verified | None = None  # of a sentence that was drafted and verified ("exact")

    def is_doubtful(self, least: float | None) -> bool:
        """Say whether it is known to be less sure than that."""
        return least is not None and self.confidence is not None and self.confidence < least

    @property
    def score(self) -> float:
        """Mean log-probability of what the model wrote and the translation keeps, every EOS included."""
        return mean_log_prob([self])


def mean_log_prob(translations: Iterable[Translation]) -> float:
    """Average over all tokens that several translations keep."""
    kept = [p for one in translations for segment in one.segments for p in segment.kept_log_probs]
    return float(np.mean(kept)) if kept else 0.0
