"""Whose folder is this? Resumable work records what it is, and refuses to continue as something else."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import read_json, write_json


def claim(record: Path, identity: dict[str, Any], refusal: str, may_change: Collection[str] = ()) -> None:
    """Write `identity` down where nothing is yet; else check that it is the same, and write what `may_change`."""
    before = check_record(record, identity, refusal, may_change)
    if before | identity != before:
        write_json(record, before | identity)


def check_record(
    record: Path, identity: dict[str, Any], refusal: str, may_change: Collection[str] = ()
) -> dict[str, Any]:
    """Return what was written down, nothing where there is no record; refuse another identity."""
    if not record.is_file():
        return {}
    before: dict[str, Any] = read_json(record, "record of earlier work")
    check_same(before, {key: value for key, value in identity.items() if key not in may_change}, refusal)
    return before


def check_same(before: dict[str, Any], identity: dict[str, Any], refusal: str) -> None:
    """Refuse where what was written down differs, naming what changed."""
    changed = [f"{key}: {before.get(key)} -> {value}" for key, value in identity.items() if before.get(key) != value]
    if changed:
        raise UserError("\n  ".join([refusal, *changed]))
