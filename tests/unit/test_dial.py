"""The figures of --quality in docs/decoding.md are those of the result files it names."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "2026-11-19-cpu"
PAGE = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
SYSTEMS = {  # as `evaluate` calls them, and `bench`
    "`fast`": ("fast", "fast"),
    "`balanced`": ("balanced", "balanced"),
    "`best`": ("best", "best"),
    "`exact`": ("K 1", "default"),
    "(`exact`, drafted: `--segments auto`)": ("exact by length", "exact by length"),
    "(K = 2)": ("K 2", "K 2"),
    "(beam 4)": ("beam 4", "beam 4"),
}


def rows(text: str, first: str, column: int) -> list[list[str]]:
    """Find the rows of tables that have `first` in a column."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [cells for cells in lines if len(cells) > column and cells[column] == first]


@pytest.mark.parametrize("quality", SYSTEMS)
def test_the_dial_shows_what_was_measured(quality: str) -> None:
    evaluated, timed = SYSTEMS[quality]
    *_, told = rows(PAGE, quality, 0)
    measured = [
        rows((RESULTS / name).read_text(encoding="utf-8"), evaluated, 1)[0] for name in ("en-de.md", "de-en.md")
    ]
    assert told[1] == " / ".join(row[3] for row in measured)
    assert told[2] == " / ".join(row[9] for row in measured)
    bench = (RESULTS / "builtin.md").read_text(encoding="utf-8")
    for name, ms in ((timed, told[3]), (f"{timed} ONNX", told[4])):
        found = [cells[3] for cells in rows(bench, name, 0) if len(cells) == 9 and cells[1] == "1"]
        assert found == [ms] if ms else not found
