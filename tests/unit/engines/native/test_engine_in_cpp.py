"""The engine's tests in C++ (csrc/tests) find nothing under AddressSanitizer and UndefinedBehaviorSanitizer.

This runs those of the smallest model; `make sanitize` runs all of them, and ThreadSanitizer.
"""

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[4]
COMPILERS = (os.environ.get("CXX", "g++"), "c++", "clang++")
MISSING = [name for name in ("make", "cmake") if not which(name)] + ["a C++ compiler"] * (
    not any(map(which, COMPILERS))
)


@pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {', '.join(MISSING)}")
def test_sanitizers_find_nothing() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--silent", "sanitize-address", "QUICK=--quick"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert done.stdout.startswith("passed with the kits ")
    assert "plain" in done.stdout.split()
