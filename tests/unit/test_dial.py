"""The figures of --quality in docs/decoding.md are those of the result files it names."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "2026-11-16-tolerance"
PAGE = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
SYSTEMS = {"`fast`": "auto", "`balanced`": "tolerance 1", "`best`": "tolerance 0.5", "`exact`": "exact"}


def rows(text: str, first: str, column: int) -> list[list[str]]:
    """Find the rows of tables that have `first` in a column."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [cells for cells in lines if len(cells) > column and cells[column] == first]


@pytest.mark.parametrize("quality", SYSTEMS)
def test_the_dial_shows_what_was_measured(quality: str) -> None:
    _, told = rows(PAGE, quality, 0)
    measured = [
        rows((RESULTS / name).read_text(encoding="utf-8"), SYSTEMS[quality], 1)[0] for name in ("en-de.md", "de-en.md")
    ]
    assert told[1] == " / ".join(row[3] for row in measured)
    assert told[2] == " / ".join(row[9] for row in measured)
    bench = (RESULTS / "bench.md").read_text(encoding="utf-8")
    assert told[3] in [cells[3] for cells in rows(bench, SYSTEMS[quality], 0) if len(cells) == 9]
    assert told[4] in [cells[2] for cells in rows(bench, SYSTEMS[quality], 0) if cells[1] == "K1"]
