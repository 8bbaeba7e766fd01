"""What translating gives back: text, and how it came about."""

from collections.abc import Callable, Iterator, Sequence
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
    overlap: int = 0  # first tokens left out of the translation, which has just said them (decode.join_overlaps)

    @property
    def score(self) -> float:
        """Mean log-probability of the segment's tokens."""
        return float(np.mean(self.log_probs)) if self.log_probs else 0.0


class LaterSegments(Sequence[Segment]):
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
    """A translated sentence and how it came about."""

    source: str
    text: str
    segments: Sequence[Segment] = field(default_factory=list)
    steps: int = 0

    @property
    def ids(self) -> list[int]:
        """Token ids without deleted segments and overlaps; `text` may have had its loops cut."""
        return [i for segment in self.segments if segment.ending != "del" for i in segment.ids[segment.overlap :]]

    @property
    def score(self) -> float:
        """Mean log-probability over all tokens of the kept segments."""
        kept = [p for segment in self.segments if segment.ending != "del" for p in segment.log_probs]
        return float(np.mean(kept)) if kept else 0.0


def joined(source: str, text: str, parts: Sequence[Translation]) -> Translation:
    """Make one translation of those of a text's parts, which together read `text`."""
    segments = [segment for part in parts for segment in part.segments]
    return Translation(source, text, segments, sum(part.steps for part in parts))
