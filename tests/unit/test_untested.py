"""A run of pytest ends with what it could not test on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
@pytest.mark.skipif(True, reason="no wings here")
def test_flying(number): pass

def test_of_two_kits_one_is_here(not_tested):
    not_tested("kit beak: not on this bird")

def test_that_fails_tells_it_too(not_tested):
    not_tested("kit beak: not on this bird")
    assert False

def test_everything(): pass
"""


def ending(folder: Path, *options: str) -> str:
    """Run the tests of a folder with the hooks of ours, and return the section about what was not tested."""
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "tests.conftest"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *options, str(folder)], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.stdout.partition("not tested on this machine")[2]


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_ends_with_what_it_could_not_test(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_birds.py").write_text(TESTS)
    (tmp_path / "test_fish.py").write_text("import pytest\npytest.importorskip('gills')\ndef test_it(): pass\n")
    told = ending(tmp_path, "-n", processes)
    assert "\n3 tests: no wings here\n" in told
    assert "\n2 tests: kit beak: not on this bird\n" in told
    assert "\n1 test: could not import 'gills': No module named 'gills' (all of test_fish.py)\n" in told
    assert told.count(" test: ") + told.count(" tests: ") == 3


def test_a_run_that_tests_everything_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_birds.py").write_text("def test_everything(): pass\n")
    assert ending(tmp_path) == ""
