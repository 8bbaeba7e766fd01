"""What a caller of `Translator.translate` may ask for, and what is said where it cannot be meant."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from recoversat.decoding.segmentwise import Forced
from recoversat.errors import UserError

_log = logging.getLogger(__name__)
_WIDEST_BEAM = 100
WantedSegments = int | Literal["auto"] | None  # None = as the model was trained: its one K, or "auto" where it has many


@dataclass(frozen=True)
class Request:
    """All that a call asks for beside its texts."""

    segments: WantedSegments
    batch_size: int
    beam: int
    scores: bool = True
    alternatives: int = 0
    forced: Sequence[Forced] | None = None
    force: Sequence[str] = ()
    repairs: bool = True

    @property
    def is_forced(self) -> bool:
        """Say whether the caller has words of their own in mind."""
        return bool(self.forced or self.force)

    def __post_init__(self) -> None:
        k = self.segments
        if isinstance(k, bool) or (not isinstance(k, int) and k not in (None, "auto")):
            raise UserError(f"segments: {k!r} is neither a whole number from 1 nor 'auto'")
        if self.batch_size < 1 or self.beam < 1:
            raise UserError("batch_size and beam are whole numbers from 1")
        if self.beam > _WIDEST_BEAM:
            raise UserError(f"--beam {self.beam}: at most {_WIDEST_BEAM}; a beam of 4 to 8 is usual")


Wish = Request  # its name in inference/batches.py


def check_list(texts: object) -> None:
    """Refuse a text where several are expected."""
    if isinstance(texts, str):
        raise UserError("translate takes a list of texts; write translate([text])")


def check_lines(texts: Sequence[str]) -> None:
    """Refuse what is no single line of text."""
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(f"text {number} is {type(text).__name__}, not str")
        if "\n" in text:
            raise UserError(f"text {number} has a line break: give single lines, e.g. text.splitlines()")


@lru_cache(maxsize=64)  # once each
def warn_of_untrained(k: int, trained: tuple[int, ...]) -> None:
    """Say that a model has not been trained for this K."""
    known = f"{trained[0]}-{trained[-1]}" if len(trained) > 1 else str(trained[0])
    _log.warning("this model was trained for K = %s; K = %d will translate badly", known, k)
