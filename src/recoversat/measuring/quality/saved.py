"""A system's output on disk: its text, and a JSON lines file with all that the measures need.

The first line of the JSON file says who wrote what with which settings; then comes a line a sentence.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, FiniteFloat, ValidationError

from recoversat.errors import UserError
from recoversat.files.storage import lines_of, write_text
from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet

# what is kept of a sentence, and the field of SystemOutput that holds it for all sentences
_COLUMNS = {"text": "hypotheses", "tokens": "tokens", "steps": "steps", "segments": "segments", "score": "scores"}


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
