"""docs/files.md lists the formats there are, with their extensions."""

import re
from pathlib import Path

from recoversat.text.documents import FORMATS

PAGE = (Path(__file__).parents[4] / "docs" / "files.md").read_text(encoding="utf-8")


def test_the_table_is_the_registry() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, flags=re.MULTILINE))
    assert rows.keys() == {"lines", *FORMATS}
    for name, known in FORMATS.items():
        named = [found for found in re.findall(r"`(\.\w+)`", rows[name]) if found != ".txt"]
        assert tuple(named) == known.extensions
