"""What a system wrote and what it should have written: the only inputs of every measure."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from recoversat.errors import UserError
from recoversat.files.storage import lines_of
from recoversat.measuring.system import JSON
from recoversat.vocab import BOS, DEL, EOS, PAD

Ending: TypeAlias = Literal["eos", "del", "cut"]
Encode: TypeAlias = Callable[[str], list[int]]

# Every signature says these, in this order, even when the answer is "unknown".
SIGNATURE_KEYS = ("version", "data", "K", "p", "q", "beam", "engine", "precision", "device", "batch")
_NOT_TEXT = frozenset((PAD, BOS, EOS, DEL))


@dataclass(frozen=True)
class SegmentStat:
    """One decoded segment: its tokens without the terminator, and what ended it ('cut' = the maximum)."""

    length: int
    ending: Ending


@dataclass(frozen=True)
class TestSet:
    """Sources and references, aligned line by line; the sub-words are needed by some measures only."""

    __test__: ClassVar[bool] = False  # pytest takes a class of this name for a group of tests

    name: str
    sources: list[str]
    references: list[str]
    reference_tokens: list[list[int]] | None = None
    source_tokens: list[list[int]] | None = None

    def __post_init__(self) -> None:
        _same_lengths(
            f"test set {self.name!r}",
            sources=self.sources,
            references=self.references,
            reference_tokens=self.reference_tokens,
            source_tokens=self.source_tokens,
        )
        _only_text(f"test set {self.name!r}, reference_tokens", self.reference_tokens)

    @property
    def fingerprint(self) -> str:
        """Hash sources and references, so that two reports can be seen to use the same test set."""
        digest = hashlib.blake2b(digest_size=8)
        for line in (*self.sources, "\0", *self.references):
            digest.update(line.encode() + b"\n")
        return digest.hexdigest()


@dataclass(frozen=True)
class SystemOutput:
    """What one system wrote on one test set; fields that are None leave their measures out of the report."""

    name: str
    test_set: str
    hypotheses: list[str]
    tokens: list[list[int]] | None = None  # sub-words as decoded: no terminators, no deleted segments
    steps: list[int] | None = None
    segments: list[list[SegmentStat]] | None = None
    scores: list[float] | None = None  # mean log-probability of each translation
    n_segments: int | str | None = None  # K, or "auto"; 1 or None for an autoregressive or a one-step system
    latency_ms: float | None = None  # of one sentence at batch 1
    settings: dict[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"output of {self.name!r} on {self.test_set!r}"
        _same_lengths(
            where,
            hypotheses=self.hypotheses,
            tokens=self.tokens,
            steps=self.steps,
            segments=self.segments,
            scores=self.scores,
        )
        _only_text(f"{where}, tokens", self.tokens)
        for number, score in enumerate(self.scores or (), 1):
            if not math.isfinite(score):
                raise ValueError(f"{where}, sentence {number}: score is {score}")

    @property
    def signature(self) -> dict[str, JSON]:
        """Give every setting under its name, None where the system did not say.

        >>> SystemOutput("AT", "test", [], settings={"beam": 4, "alpha": 0.6}).signature["beam"]
        4
        """
        known: dict[str, JSON] = {key: self.settings.get(key) for key in SIGNATURE_KEYS}
        if known["K"] is None:
            known["K"] = self.n_segments
        return known | {key: self.settings[key] for key in sorted(self.settings.keys() - known.keys())}


def signature_text(signature: dict[str, JSON]) -> str:
    """Write a signature on one line, as sacreBLEU does, without what is unknown or switched off.

    >>> signature_text({"version": "0.1.0", "K": 10, "beam": None, "device": "cpu", "cut_loops": False})
    'version:0.1.0|K:10|device:cpu'
    """
    return "|".join(f"{key}:{value}" for key, value in signature.items() if value is not None and value is not False)


def read_lines(path: Path, what: str) -> list[str]:
    """Read a text file that must not be empty; `what` names its content in the error."""
    lines = list(lines_of(path))
    if not lines:
        raise UserError(f"{path}, line 1: the file is empty, expected {what}, one sentence a line")
    return lines


def read_test_set(
    name: str,
    sources: Path,
    references: Path,
    encode: Encode | None = None,
    encode_source: Encode | None = None,
) -> TestSet:
    """Read a test set from two aligned files; `encode` gives the sub-words that Mis is counted in."""
    source_lines = read_lines(sources, "the sentences to translate")
    reference_lines = read_lines(references, "their reference translations")
    _aligned(sources, source_lines, references, reference_lines)
    for number, (source, reference) in enumerate(zip(source_lines, reference_lines, strict=True), 1):
        if source.strip() and not reference.strip():
            raise UserError(f"{references}, line {number}: the reference is missing (the line is empty)")
    return TestSet(
        name=name,
        sources=source_lines,
        references=reference_lines,
        reference_tokens=[encode(line) for line in reference_lines] if encode else None,
        source_tokens=[encode_source(line) for line in source_lines] if encode_source else None,
    )


def read_output(
    name: str,
    test_set: TestSet,
    path: Path,
    encode: Encode | None = None,
    settings: dict[str, JSON] | None = None,
) -> SystemOutput:
    """Read the translations of a system from a text file, e.g. a baseline that is not ours."""
    lines = read_lines(path, f"translations of {test_set.name!r}")
    _aligned(path, lines, f"test set {test_set.name!r}", test_set.references)
    tokens = [encode(line) for line in lines] if encode else None
    return SystemOutput(name, test_set.name, lines, tokens, settings=settings or {})


def _aligned(left: Path | str, left_lines: list[str], right: Path | str, right_lines: list[str]) -> None:
    shorter, longer = sorted(((left, len(left_lines)), (right, len(right_lines))), key=lambda side: side[1])
    if shorter[1] != longer[1]:
        raise UserError(
            f"{shorter[0]}, line {shorter[1] + 1}: missing; the file has {shorter[1]} lines"
            f" but {longer[0]} has {longer[1]}"
        )


def _same_lengths(where: str, **columns: Sequence[object] | None) -> None:
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{where}: lists of different lengths: {lengths}")


def _only_text(where: str, sentences: list[list[int]] | None) -> None:
    # A terminator left in would count as a token in Rep and Mis without anybody noticing.
    for number, ids in enumerate(sentences or (), 1):
        if not _NOT_TEXT.isdisjoint(ids):
            raise ValueError(f"{where}, sentence {number}: PAD, BOS, EOS or DEL among the tokens {ids}")
