"""The recipes that make the tables: every command they run has settings that exist."""

import itertools
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from recoversat.config import Config, load_config

RECIPES = Path(__file__).parents[2] / "recipes"
STAGES = {
    "ende200k.sh": [
        "corpus", "teacher", "k10", "mixed", "k2", "k5", "nat", "p0", "p1", "p1-0", "q0", "encoder", "words",
    ],
    "builtin.sh": ["teacher", "student", "export"],
}  # fmt: skip


def commands(recipe: str, out: Path) -> list[list[str]]:
    """Let a recipe print its commands instead of running them, quoted so that they can be read again."""
    echo = out / "echo"
    echo.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done; printf "\\n"\n')
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
        assert config.train.steps in (70, 35, 17)  # all of it, a half (NAT), a quarter (ablations)
        assert ("--init-from" in words) == (words[words.index("--out") + 1] != str(tmp_path / "teacher"))


def test_students_train_side_by_side_and_a_failure_is_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text('#!/bin/sh\ncase "$*" in *"/p0 "*) exit 1;; esac; touch "$4/x" 2>/dev/null || mkdir "$4"\n')
    run.chmod(0o755)
    done = subprocess.run(
        ["bash", str(RECIPES / "ende200k.sh"), "DATA", str(tmp_path / "out"), "students"],
        env={**os.environ, "RECOVERSAT": shlex.quote(str(run))}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    trained = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert trained == {
        "k10",
        "p1-0",
        "words",
        "mixed",
        "q0",
        "k5",
        "k2",
        "nat",
        "p1",
    }  # the encoder comes after p0
    assert done.returncode == 1
    assert "a training failed" in done.stderr


def test_the_ablations_differ_in_p_and_q(tmp_path: Path) -> None:
    run = {Path(words[words.index("--out") + 1]).name: words for words in commands("ende200k.sh", tmp_path)}
    train = {name: settings_of(run[name]).train for name in ("p0", "p1", "p1-0", "q0", "k10")}
    p = {name: (config.random_prob, config.anneal and config.random_prob > 0) for name, config in train.items()}
    assert (p["p0"], p["p1"], p["p1-0"], p["k10"]) == ((0, False), (1, False), (1, True), (1, True))
    assert {name: config.repeat_prob for name, config in train.items()} == {
        "p0": 0.5, "p1": 0.5, "p1-0": 0.5, "q0": 0, "k10": 0.5,
    }  # fmt: skip
