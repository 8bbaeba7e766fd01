"""What a system wrote and what it should have written: the only inputs of every measure."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from recoversat.errors import UserError
from recoversat.files.storage import lines_of
from recoversat.measuring.system import JSON
from recoversat.vocab import BOS, DEL, EOS, PAD

Ending: TypeAlias = Literal["eos", "del", "cut"]

# Every signature says these, in this order, even when the answer is "unknown".
SIGNATURE_KEYS = ("version", "data", "K", "p", "q", "beam", "engine", "precision", "device", "batch")
_NOT_TEXT = frozenset((PAD, BOS, EOS, DEL))


class SegmentStat(NamedTuple):
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
    scores: list[float] | None = None  # mean log-probability of each translation, or log(confidence)
    latency_ms: float | None = None  # of one sentence at batch 1
    settings: dict[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A terminator left in would count as a token in Rep and Mis without anybody noticing.
        for number, ids in enumerate(self.tokens or (), 1):
            if not _NOT_TEXT.isdisjoint(ids):
                raise ValueError(f"{self.name!r}, sentence {number}: PAD, BOS, EOS or DEL among the tokens {ids}")

    @property
    def signature(self) -> dict[str, JSON]:
        """Give every setting under its name, None where the system did not say."""
        known: dict[str, JSON] = {key: self.settings.get(key) for key in SIGNATURE_KEYS}
        return known | {key: self.settings[key] for key in sorted(self.settings.keys() - known.keys())}


def signature_text(signature: dict[str, JSON]) -> str:
    """Write a signature on one line, as sacreBLEU does, without what is unknown or switched off.

    >>> signature_text({"version": "0.1.0", "K": 10, "beam": None, "device": "cpu", "cut_loops": False})
    'version:0.1.0|K:10|device:cpu'
    """
    return "|".join(f"{key}:{value}" for key, value in signature.items() if value is not None and value is not False)


def _read_lines(path: Path, what: str) -> list[str]:
    """Read a text file that must not be empty; `what` names its content in the error."""
    lines = list(lines_of(path))
    if not lines:
        raise UserError(f"{path}, line 1: the file is empty, expected {what}, one sentence a line")
    return lines


def read_test_set(name: str, sources: Path, references: Path) -> TestSet:
    """Read a test set from two aligned files."""
    source_lines = _read_lines(sources, "the sentences to translate")
    reference_lines = _read_lines(references, "their reference translations")
    _aligned(sources, source_lines, references, reference_lines)
    for number, (source, reference) in enumerate(zip(source_lines, reference_lines, strict=True), 1):
        if source.strip() and not reference.strip():
            raise UserError(f"{references}, line {number}: the reference is missing (the line is empty)")
    return TestSet(name, source_lines, reference_lines)


def read_output(name: str, test_set: TestSet, path: Path) -> SystemOutput:
    """Read the translations of a system from a text file, e.g. a baseline that is not ours."""
    lines = _read_lines(path, f"translations of {test_set.name!r}")
    _aligned(path, lines, f"test set {test_set.name!r}", test_set.references)
    return SystemOutput(name, test_set.name, lines)


def _aligned(left: Path | str, left_lines: list[str], right: Path | str, right_lines: list[str]) -> None:
    shorter, longer = sorted(((left, len(left_lines)), (right, len(right_lines))), key=lambda side: side[1])
    if shorter[1] != longer[1]:
        raise UserError(
            f"{shorter[0]}, line {shorter[1] + 1}: missing; the file has {shorter[1]} lines"
            f" but {longer[0]} has {longer[1]}"
        )
