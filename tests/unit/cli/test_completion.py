"""The shell completes commands and options."""

import os
import subprocess
import sys

import pytest

RUN = "import sys; sys.argv = ['recoversat']; from recoversat.cli import main; main()"


@pytest.mark.parametrize(("typed", "completed"), [("tran", "translate"), ("fit --dry", "--dry-run")])
def test_the_shell_completes_what_was_typed(typed: str, completed: str) -> None:
    words = f"recoversat {typed}"
    asked = {"_RECOVERSAT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run([sys.executable, "-c", RUN], env=os.environ | asked, capture_output=True, text=True)
    assert done.stdout.split() == [completed]
