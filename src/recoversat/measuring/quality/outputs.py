"""What a system wrote and what it should have written: the only inputs of every measure.

An output is kept as its text, and as JSON lines with all that the measures need: the first line says who wrote what
with which settings; then comes a line a sentence.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, FiniteFloat, ValidationError

from recoversat.errors import UserError
from recoversat.files.storage import lines_of, write_text
from recoversat.measuring.system import JSON
from recoversat.vocab import BOS, DEL, EOS, PAD

Ending: TypeAlias = Literal["eos", "del", "cut"]

# Every signature says these, in this order, even when the answer is "unknown".
SIGNATURE_KEYS = ("version", "data", "K", "p", "q", "beam", "engine", "precision", "device", "batch")
# what is kept of a sentence, and the field of SystemOutput that holds it for all sentences
_COLUMNS = {"text": "hypotheses", "tokens": "tokens", "steps": "steps", "segments": "segments", "score": "scores"}
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


class _Head(BaseModel):
    format: Literal["recoversat-output-1"] = "recoversat-output-1"
    system: str
    test_set: str
    test_set_hash: str
    n_segments: int | str | None
    latency_ms: float | None
    settings: dict[str, Any]


class _Sentence(BaseModel):
    text: str
    tokens: list[int] | None
    steps: int | None
    segments: list[SegmentStat] | None
    score: FiniteFloat | None


def save_output(folder: Path, output: SystemOutput, test_set: TestSet) -> Path:
    """Write NAME.txt and NAME.jsonl into `folder`; the JSON, which says that both are there, comes last."""
    write_text(folder / f"{output.name}.txt", "".join(f"{line}\n" for line in output.hypotheses))
    head = _Head(
        system=output.name,
        test_set=output.test_set,
        test_set_hash=test_set.fingerprint,
        n_segments=output.settings.get("K"),
        latency_ms=output.latency_ms,
        settings=output.settings,
    )
    columns = {key: getattr(output, field) or [None] * len(output.hypotheses) for key, field in _COLUMNS.items()}
    sentences = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    lines = [head, *(_Sentence(**sentence) for sentence in sentences)]
    path = folder / f"{output.name}.jsonl"
    write_text(path, "".join(f"{line.model_dump_json()}\n" for line in lines))
    return path


def read_saved(path: Path, test_set: TestSet, name: str | None = None) -> SystemOutput:
    """Read what `save_output` wrote for this test set, under another name when one is given."""
    first, *lines = list(lines_of(path)) or [""]
    try:
        head = _Head.model_validate_json(first)
    except ValidationError:
        raise UserError(f"{path}, line 1: not an output saved by 'recoversat evaluate'") from None
    if head.test_set_hash != test_set.fingerprint:
        raise UserError(
            f"{path}: translates {head.test_set!r} with other sentences than the test set"
            f" {test_set.name!r} has now; evaluate the model again"
        )
    if len(lines) != len(test_set.sources):
        raise UserError(f"{path}, line {len(lines) + 2}: missing, there are {len(test_set.sources)} sentences")
    try:
        sentences = [_Sentence.model_validate_json(line) for line in lines]
        columns = {field: [getattr(one, key) for one in sentences] for key, field in _COLUMNS.items()}
        known: dict[str, Any] = {field: None if None in column else column for field, column in columns.items()}
        return SystemOutput(
            name or head.system, test_set.name, latency_ms=head.latency_ms, settings=head.settings, **known
        )
    except ValueError as error:
        raise UserError(f"{path}: damaged ({error}); delete it and evaluate the model again") from None
