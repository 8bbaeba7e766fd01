"""A system's output on disk: its text, and a JSON lines file with all that the measures need.

The first line of the JSON file says who wrote what with which settings; then comes a line a sentence.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import lines_of, write_text
from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet
from recoversat.measuring.system import JSON

FORMAT = "recoversat-output-1"


def save_output(folder: Path, output: SystemOutput, test_set: TestSet) -> Path:
    """Write NAME.txt and NAME.jsonl into `folder`; the JSON, which says that both are there, comes last."""
    write_text(folder / f"{output.name}.txt", "".join(f"{line}\n" for line in output.hypotheses))
    head: dict[str, JSON] = {
        "format": FORMAT,
        "system": output.name,
        "test_set": output.test_set,
        "test_set_hash": test_set.fingerprint,
        "n_segments": output.n_segments,
        "latency_ms": output.latency_ms,
        "settings": output.settings,
    }
    lines = [head, *(_sentence(output, number) for number in range(len(output.hypotheses)))]
    path = folder / f"{output.name}.jsonl"
    write_text(path, "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines))
    return path


def read_saved(path: Path, test_set: TestSet, name: str | None = None) -> SystemOutput:
    """Read what `save_output` wrote for this test set, under another name when one is given."""
    records = [_parsed(path, number, line) for number, line in enumerate(lines_of(path), 1)]
    if not records or records[0].get("format") != FORMAT:
        raise UserError(f"{path}, line 1: not an output saved by 'recoversat evaluate' (no format {FORMAT!r})")
    head, sentences = records[0], records[1:]
    if head.get("test_set_hash") != test_set.fingerprint:
        raise UserError(
            f"{path}: translates {head.get('test_set')!r} with other sentences than the test set"
            f" {test_set.name!r} has now; evaluate the model again"
        )
    if len(sentences) != len(test_set.sources):
        raise UserError(f"{path}, line {len(records) + 1}: missing, there are {len(test_set.sources)} sentences")
    try:
        return _output(name or head["system"], test_set.name, head, sentences)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: damaged output ({error!r}); delete it and evaluate the model again") from None


def _sentence(output: SystemOutput, number: int) -> dict[str, JSON]:
    segments = output.segments[number] if output.segments else None
    return {
        "text": output.hypotheses[number],
        "tokens": output.tokens[number] if output.tokens else None,
        "steps": output.steps[number] if output.steps else None,
        "segments": [[part.length, part.ending] for part in segments] if segments is not None else None,
        "score": output.scores[number] if output.scores else None,
    }


def _output(name: str, test_set: str, head: dict[str, Any], sentences: list[dict[str, Any]]) -> SystemOutput:
    segments = _column(sentences, "segments")
    return SystemOutput(
        name=name,
        test_set=test_set,
        hypotheses=[sentence["text"] for sentence in sentences],
        tokens=_column(sentences, "tokens"),
        steps=_column(sentences, "steps"),
        segments=[[SegmentStat(*part) for part in parts] for parts in segments] if segments else None,
        scores=_column(sentences, "score"),
        n_segments=head["n_segments"],
        latency_ms=head["latency_ms"],
        settings=head["settings"],
    )


def _column(sentences: Sequence[dict[str, Any]], key: str) -> list[Any] | None:
    values = [sentence[key] for sentence in sentences]
    return None if any(value is None for value in values) else values


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {number}: not JSON ({error.msg})") from None
    if not isinstance(record, dict):
        raise UserError(f"{path}, line {number}: expected an object")
    return record
