"""The recipes that make the tables: every command they run has settings that exist."""

import itertools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from recoversat.config import Config, load_config

RECIPES = Path(__file__).parents[2] / "recipes"
PYTHON = Path(sys.executable).parent
STAGES = {
    "ende200k.sh": [
        "corpus", "teacher", "k10", "mixed", "k2", "k5", "nat", "p0", "p1", "p1-0", "q0", "encoder", "words",
    ],
    "builtin.sh": ["teacher", "student", "export"],
}  # fmt: skip


def commands(recipe: str, out: Path) -> list[list[str]]:
    """Let a recipe print its commands instead of running them, quoted so that they can be read again."""
    echo = out / "echo"
    echo.write_text(
        '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done; printf "\\n"\n'
        'if [ "$1" = train ]; then mkdir -p "$4"; fi\n'
    )
    echo.chmod(0o755)
    environment = {**os.environ, "RECOVERSAT": shlex.quote(str(echo)), "STEPS": "70", "TEACHER_STEPS": "70"}
    done = subprocess.run(
        ["bash", str(RECIPES / recipe), "DATA", str(out), *STAGES[recipe]],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split("\0")[:-1] for line in done.stdout.splitlines()]


def settings_of(words: list[str]) -> Config:
    values = {option: [b for a, b in itertools.pairwise(words) if a == option] for option in words}
    config = values.get("--config", [])
    return load_config(Path(config[0]) if config else None, *values.get("--preset", []) or [None], values.get("--set"))


@pytest.mark.parametrize("recipe", STAGES)
def test_every_training_has_settings_that_exist(recipe: str, tmp_path: Path) -> None:
    run = commands(recipe, tmp_path)
    trainings = [words for words in run if words[0] == "train"]
    assert len(trainings) >= 2
    for words in trainings:
        config = settings_of(words)
        name = Path(words[words.index("--out") + 1]).name
        assert config.train.steps == {"teacher": 70, "mixed": 70, "student": 70, "nat": 17}.get(name, 21)
        source = words[words.index("--init-from") + 1] if "--init-from" in words else None
        start = {"teacher": None} | dict.fromkeys(("k2", "k5", "k10"), str(tmp_path / "mixed"))
        assert source == start.get(name, str(tmp_path / "teacher"))


def test_students_train_side_by_side_and_a_failure_is_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text('#!/bin/sh\necho "$4" >> "$RUNS"\ncase "$*" in *"/k5 "*"$FAIL") exit 1;; esac; mkdir -p "$4"\n')
    run.chmod(0o755)
    runs, out = tmp_path / "runs", tmp_path / "out"

    def students(fail: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"RECOVERSAT": shlex.quote(str(run)), "RUNS": str(runs), "FAIL": fail}
        command = ["bash", str(RECIPES / "ende200k.sh"), "DATA", str(out), "students", "p1-0+q0", "ablations"]
        return subprocess.run(command, env=environment, text=True, check=False, capture_output=True)

    first = students("")
    assert first.returncode == 1
    assert f"a training failed: see {out / 'k5.log'}" in first.stderr
    assert {path.parent.name for path in out.glob("*/done")} == {"mixed", "nat", "k10", "k2"}
    assert students("no").returncode == 0
    tried = [Path(line).name for line in runs.read_text().splitlines()]
    ablations = ["encoder", "p0", "p1", "p1-0", "q0", "words"]
    assert sorted(tried) == sorted(["k10", "k2", "k5", "k5", "mixed", "nat", *ablations])  # what is done is left alone
    assert set(tried[:2]) == {"mixed", "nat"}


def test_the_ablations_differ_in_p_and_q(tmp_path: Path) -> None:
    run = {Path(words[words.index("--out") + 1]).name: words for words in commands("ende200k.sh", tmp_path)}
    train = {name: settings_of(run[name]).train for name in ("p0", "p1", "p1-0", "q0", "k10")}
    p = {name: (config.random_prob, config.anneal and config.random_prob > 0) for name, config in train.items()}
    assert (p["p0"], p["p1"], p["p1-0"], p["k10"]) == ((0, False), (1, False), (1, True), (0.3, True))
    assert {name: config.repeat_prob for name, config in train.items()} == {
        "p0": 0.5, "p1": 0.5, "p1-0": 0.5, "q0": 0, "k10": 0.5,
    }  # fmt: skip
