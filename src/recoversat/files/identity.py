"""Whose folder is this? Resumable work records what it is, and refuses to continue as something else."""

from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import read_json, write_json


def claim(record: Path, identity: dict[str, Any], refusal: str) -> None:
    """Write `identity` down where nothing is yet; else check that it is the same, naming what changed."""
    if record.is_file():
        check_same(read_json(record, "record of earlier work"), identity, refusal)
    else:
        write_json(record, identity)


def check_same(before: dict[str, Any], identity: dict[str, Any], refusal: str) -> None:
    """Refuse where what was written down differs, naming what changed."""
    changed = [f"{key}: {before.get(key)} -> {value}" for key, value in identity.items() if before.get(key) != value]
    if changed:
        raise UserError("\n  ".join([refusal, *changed]))
