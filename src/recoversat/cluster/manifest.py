"""The manifest of a run: which part of which file, with which model and settings; every part has a key."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recoversat.cluster.inputs import Part, open_input
from recoversat.cluster.shards import Shard
from recoversat.errors import UserError
from recoversat.files.identity import claim
from recoversat.files.storage import atomic_file, faults_named, read_json
from recoversat.pipeline.outputs import refuse_same_names

RUN = "run"  # folder beside the outputs, with all that makes a run continue after a kill
_NAME, _SETTINGS = "manifest.jsonl", "settings.json"


@dataclass(frozen=True)
class PlannedFile:
    """An input file with its parts, as it was when it was read."""

    path: Path
    size: int
    changed: int  # time of its last change, in nanoseconds
    parts: list[Part]

    @property
    def stays(self) -> bool:
        """Say whether the file is as it was, as far as can be seen without reading it."""
        return self.path.is_file() and (self.size, self.changed) == _state(self.path)


@dataclass(frozen=True)
class Manifest:
    """All shards of a run, in the order of the input."""

    out: Path  # folder of the outputs
    settings: dict[str, Any]  # of decoding, with the model's fingerprint: what beside the text a result depends on
    files: list[PlannedFile]

    @property
    def run(self) -> Path:
        return self.out / RUN

    def shards(self) -> Iterator[Shard]:
        for file in self.files:
            yield from self.shards_of(file)

    def shards_of(self, file: PlannedFile) -> Iterator[Shard]:
        """Yield the shards of a file; parts with the same text have the same key, and one result."""
        unit = "rows" if file.path.suffix == ".parquet" else "lines"
        for part in file.parts:
            key = shard_key(self.settings, f"{part.count} {part.digest}")
            name = f"{file.path.name}, {unit} {part.first + 1:,}-{part.first + part.count:,}"
            result = self.run / "shards" / key[:2] / f"{key}.gz"  # no folder gets so many that listing it takes long
            yield Shard(key, name, part.count, result, (file.path, part))


def shard_key(settings: dict[str, Any], content: str) -> str:
    """Name a result by all that it depends on: what is to be translated, and how."""
    described = json.dumps([settings, content], sort_keys=True)
    return hashlib.blake2b(described.encode(), digest_size=16).hexdigest()


def plan(out: Path, inputs: list[Path], settings: dict[str, Any], shard_size: int) -> Manifest:
    """Cut the inputs into shards and write the manifest; files that did not change are not read again.

    A run that was begun here is continued: with other settings it is refused, with other text only that is new work.
    """
    refuse_same_names(inputs)
    if any(path.name == RUN for path in inputs):
        raise UserError("an input is called run, as the folder beside the outputs is; rename it")
    for path in inputs:
        refuse_own_input(out / path.name, path)
    run = out / RUN
    run.mkdir(parents=True, exist_ok=True)
    refusal = f"{out} holds a run with other settings or another model; write elsewhere"
    claim(run / _SETTINGS, settings | {"shard_size": shard_size}, refusal)
    known = {file.path: file for file in _read_files(run)} if (run / _NAME).is_file() else {}
    files = []
    for path in map(Path.resolve, inputs):
        if (file := known.get(path)) is None or not file.stays:
            with faults_named(path):
                file = PlannedFile(path, *_state(path), [])
            file.parts.extend(open_input(path, jsonl=settings["jsonl"]).parts(shard_size))
        files.append(file)
    if files != list(known.values()):
        _write_files(run, files)
    return Manifest(out, settings, files)


def refuse_own_input(out: Path, path: Path) -> None:
    """Refuse to write over what is to be translated."""
    if out.resolve() == path.resolve():
        raise UserError(f"{out} is an input: write to another folder")


def read_manifest(out: Path) -> Manifest:
    run = out / RUN
    if not (run / _NAME).is_file():
        raise UserError(f"{out}: no run here ({run / _NAME} is missing); translate --workers begins one")
    settings = read_json(run / _SETTINGS, "folder of a run")
    return Manifest(out, {key: value for key, value in settings.items() if key != "shard_size"}, _read_files(run))


def _write_files(run: Path, files: list[PlannedFile]) -> None:
    with atomic_file(run / _NAME) as scratch, open(scratch, "w", encoding="utf-8") as stream:
        for file in files:
            head = {"file": str(file.path), "size": file.size, "changed": file.changed, "parts": len(file.parts)}
            stream.write(json.dumps(head, ensure_ascii=False) + "\n")
            stream.writelines(json.dumps(asdict(part)) + "\n" for part in file.parts)


def _read_files(run: Path) -> list[PlannedFile]:
    files = []
    try:
        with open(run / _NAME, encoding="utf-8") as stream:
            for line in stream:
                head = json.loads(line)
                parts = [Part(**json.loads(next(stream))) for _ in range(head["parts"])]
                files.append(PlannedFile(Path(head["file"]), head["size"], head["changed"], parts))
    except (ValueError, KeyError, TypeError, StopIteration):
        raise UserError(f"{run / _NAME} is damaged; remove it and start the same command again") from None
    return files


def _state(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns
