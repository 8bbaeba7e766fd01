"""Whose folder is this? Resumable work records what it is, and refuses to continue as something else."""

from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import read_json, write_json


def claim(record: Path, identity: dict[str, Any], refusal: str) -> None:
    """Write `identity` down where nothing is yet; else check that it is the same, naming what changed."""
    if not record.is_file():
        write_json(record, identity)
        return
    before = read_json(record, "record of earlier work")
    changed = [f"{key}: {before.get(key)} -> {value}" for key, value in identity.items() if before.get(key) != value]
    if changed:
        raise UserError("\n  ".join([refusal, *changed]))
