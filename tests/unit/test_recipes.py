"""The recipes that make the tables: every command they run has settings that exist."""

import itertools
import os
import re
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
        "corpus", "teacher", "k10", "mixed", "k2", "k5", "nat", "paper-k2", "paper-k5", "paper-k10", "ablations",
    ],
    "builtin.sh": ["teacher", "student", "export"],
}  # fmt: skip


def commands(recipe: str, out: Path, **more: str) -> list[list[str]]:
    """Let a recipe print its commands instead of running them, quoted so that they can be read again."""
    echo = out / "echo"
    echo.write_text(
        '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done; printf "\\n"\n'
        'if [ "$1" = train ]; then mkdir -p "$4"; fi\n'
    )
    echo.chmod(0o755)
    environment = {**os.environ, "RECOVERSAT": shlex.quote(str(echo)), "STEPS": "70", "TEACHER_STEPS": "70"} | more
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
        shorter = {"nat": 17} | dict.fromkeys(("k2", "k5", "k10"), 21)
        assert config.train.steps == shorter.get(name, 70)
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
        command = ["bash", str(RECIPES / "ende200k.sh"), "DATA", str(out), "students", "paper-k2+paper-k5", "paper"]
        return subprocess.run(command, env=environment, text=True, check=False, capture_output=True)

    first = students("")
    assert first.returncode == 1
    assert f"a training failed: see {out / 'k5.log'}" in first.stderr
    assert {path.parent.name for path in out.glob("*/done")} == {"mixed", "nat", "k10", "k2"}
    assert students("no").returncode == 0
    tried = [Path(line).name for line in runs.read_text().splitlines()]
    papers = ["paper-k10", "paper-k2", "paper-k5"]
    assert sorted(tried) == ["k10", "k2", "k5", "k5", "mixed", "nat", *papers]  # what is done is left alone
    assert set(tried[:2]) == {"mixed", "nat"}


def ende200k(out: Path, **more: str) -> dict[str, list[str]]:
    """The commands of the recipe by the folder they write."""
    return {Path(words[words.index("--out") + 1]).name: words for words in commands("ende200k.sh", out, **more)}


def test_the_papers_recipe_is_the_preset_but_for_its_length(tmp_path: Path) -> None:
    run = ende200k(tmp_path, PAPER_STEPS="900", PAPER_BATCH="4096")
    for k in (2, 5, 10):
        words = run[f"paper-k{k}"]
        own, papers = settings_of(words), load_config(preset="iwslt16")
        ours = ("steps", "batch_tokens", "validate_every", "save_every", "compile", "tensorboard", "segments")
        same = {key: getattr(own.train, key) for key in ours}
        assert (same["segments"], same["steps"], same["batch_tokens"]) == (k, 900, 4096)
        assert own == papers.model_copy(update={"train": papers.train.model_copy(update=same)})
        assert words[words.index("--init-from") + 1] == str(tmp_path / "teacher")
        assert "--init-decoder" not in words


def test_the_ablations_are_a_sweep_as_long_as_the_papers_recipe(tmp_path: Path) -> None:
    (tmp_path / "nat/best").mkdir(parents=True)
    words = ende200k(tmp_path, PAPER_STEPS="900", JOBS="3")["ablations"]
    assert Path(words[1]).resolve() == RECIPES.parent / "configs/ablations.yaml"
    values = {a: b for a, b in itertools.pairwise(words) if a.startswith("--")}
    assert (values["--init-from"], values["--at"]) == (f"{tmp_path}/teacher", f"{tmp_path}/teacher:beam=4")
    assert (values["--jobs"], values["--system"]) == ("3", f"NAT={tmp_path}/nat:repairs=none")
    assert words.count("--test") == 3
    assert "--init-decoder" not in words
    train = load_config(None, "iwslt16", [b for a, b in itertools.pairwise(words) if a == "--set"]).train
    assert (train.steps, train.batch_tokens, train.learning_rate, train.clip_norm) == (900, 8192, 3e-4, None)
    other = ende200k(tmp_path, PAPER_RATE="1e-3", INIT_DECODER="1")["ablations"]
    assert "--init-decoder" in other
    assert settings_of(["--preset", "iwslt16", *other[2:]]).train.learning_rate == 1e-3


def test_what_is_compared_with_the_paper_is_not_repaired(tmp_path: Path) -> None:
    for name in ("k10", "paper-k10", "nat", "teacher"):
        (tmp_path / name / "best").mkdir(parents=True)
    echo = ["bash", str(RECIPES / "ende200k.sh"), "DATA", str(tmp_path), "evaluate"]
    done = subprocess.run(
        echo, env=os.environ | {"RECOVERSAT": "printf %s\\n"}, capture_output=True, text=True, check=True
    )
    named = [line for line in done.stdout.splitlines() if f"={tmp_path}/" in line]
    systems = dict(line.split("=", 1) for line in named)
    assert all(re.fullmatch(r"[\w.+@ -]+", name) for name in systems)  # `evaluate` takes no others
    assert systems["paper recipe 10"] == f"{tmp_path}/paper-k10:repairs=none"
    assert systems["RecoverSAT 10 unrepaired"] == f"{tmp_path}/k10:repairs=none"
    assert systems["RecoverSAT 10"] == f"{tmp_path}/k10"
    named = (RECIPES / "multi30k.sh").read_text().split("--system ")[1:]
    assert len(named) == 7
    assert all(":repairs=none" in line.partition("--")[0] for line in named)
