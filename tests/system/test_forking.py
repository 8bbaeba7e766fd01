"""What the tests' commands are forked from has imported all it should, or the tests say so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORK = "from tests.system import forking; forking.PRELOADED = 'preloaded_here'; forking.run(['--help'], None)"
OURS = "import recoversat; recoversat.__path__.insert(0, {folder!r}); import tests.system.preloaded"


@pytest.mark.parametrize(
    ("source", "missing"),
    [("import no_such_package", "no_such_package"), (OURS, "recoversat.no_such_module")],
    ids=["others", "ours"],
)
def test_an_import_that_fails_is_told(source: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "preloaded_here.py").write_text(source.format(folder=str(tmp_path / "more")))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a_module.py").write_text("import recoversat.no_such_module")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "commands cannot be forked from what has imported preloaded_here" in done.stderr
    assert f"No module named '{missing}'" in done.stderr
