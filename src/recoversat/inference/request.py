"""What a caller of `Translator.translate` may ask for, and what is said where it cannot be meant."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal

import numpy as np

from recoversat.config import QUALITIES, Config, DecodeConfig, with_quality
from recoversat.decoding.segmentwise import Forced
from recoversat.errors import UserError
from recoversat.text.glossary import Glossary

_log = logging.getLogger(__name__)
_WIDEST_BEAM = 100
_SHOWN = 40  # characters of a wrong K that an error shows
# None = as the model was trained: its one K, or "auto" where it has many
WantedSegments = int | Literal["auto"] | None
Scores = bool | Literal["one"]  # log-probabilities of all that is written; of what one segment says, K = 1 or verified


@dataclass(frozen=True)
class Request:
    """All that a call asks for beside its texts."""

    segments: WantedSegments
    batch_size: int
    beam: int
    scores: Scores = True
    top_tokens: int = 0  # likeliest tokens noted at each place; `alternatives` of `Translator.translate`
    forced: Sequence[Forced] | None = None
    force: Sequence[str] = ()
    repairs: bool = True
    decode: DecodeConfig = field(
        default_factory=DecodeConfig
    )  # as the model is set to write, or as the call asks for instead
    glossary: Glossary | None = None

    @staticmethod
    def wanted(segments: Any) -> WantedSegments:
        """Accept integers of numpy."""
        return int(segments) if isinstance(segments, np.integer) else segments

    @property
    def is_forced(self) -> bool:
        """Say whether the caller has words of their own in mind."""
        return bool(self.forced or self.force)

    def __post_init__(self) -> None:
        k = self.segments
        if isinstance(k, bool) or (not isinstance(k, int) and k not in (None, "auto")):
            raise UserError(f"segments: {k!r} is neither a whole number from 1 nor 'auto'")
        check_whole(batch_size=self.batch_size, beam=self.beam)
        if self.top_tokens:
            check_whole(alternatives=self.top_tokens)
        if self.beam > _WIDEST_BEAM:
            raise UserError(f"beam {self.beam}: at most {_WIDEST_BEAM}; a beam of 4 to 8 is usual")


def modes_for(
    config: Config, segments: WantedSegments, quality: str | None, *, beam: int, forced: bool
) -> DecodeConfig:
    """Return how a call is to be written: what it asks for, else what its model is set to, else plainly.

    What a call asks for and cannot have is refused; what a model is set to gives way to a beam and to forced words, and
    what is usual for it to a K that is named.
    """
    check_whole(beam=beam)
    asked = {} if quality is None else with_quality({"quality": quality})
    if asked in ({}, QUALITIES["fast"]):
        if beam > 1 or forced or config.model.kind != "segments" or 1 not in config.train.segment_choices:
            asked = QUALITIES["fast"]
        elif not asked and segments is None and (usual := config.decode.usual) != "fast":
            asked = QUALITIES[usual]
    else:
        _refuse(config, beam, forced)
    return _changed(config.decode, tuple(asked.items()))


@lru_cache(maxsize=64)  # the same calls come again and again, and pydantic takes its time
def _changed(decode: DecodeConfig, asked: tuple[tuple[str, Any], ...]) -> DecodeConfig:
    return decode.model_copy(update=dict(asked))


def _refuse(config: Config, beam: int, forced: bool) -> None:
    """Say why a draft cannot be verified with K = 1."""
    if config.model.kind != "segments":
        raise UserError(f"quality: a model of kind {config.model.kind!r} cannot verify what it wrote; leave it out")
    if beam > 1:
        raise UserError(f"beam {beam} cannot be combined with a quality other than fast; leave one of them out")
    if forced:
        raise UserError("forced tokens cannot be combined with a quality other than fast; leave one of them out")
    if 1 not in config.train.segment_choices:
        raise UserError("quality: this model was not trained with K = 1, which verifies drafts; leave it out")


def read_segments(text: str) -> int | Literal["auto"]:
    """Read what a user writes for K.

    >>> read_segments("10"), read_segments("auto")
    (10, 'auto')
    """
    if text == "auto":
        return "auto"
    if not (text.isdecimal() and int(text[:_SHOWN])):  # Python refuses to read integers of thousands of digits
        raise UserError(f"{text[:_SHOWN]!r} is neither a whole number from 1 nor auto")
    return int(text[:_SHOWN])


def check_whole(**values: object) -> None:
    """Refuse what is no number from 1, by its name."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | Integral) or value < 1:
            raise UserError(f"{name}: {value!r} is no whole number from 1")


def check_list(texts: object, method: str = "translate") -> None:
    """Refuse what is no list of texts, such as one text, whose letters would be translated one by one."""
    if isinstance(texts, list):  # as nearly always: what else it may be takes longer to find out
        return
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise UserError(f"{method} takes a list of texts, not {type(texts).__name__}; write {method}([text])")


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
