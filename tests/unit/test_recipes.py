"""The recipes that make the tables: every command they run has settings that exist."""

import doctest
import gzip
import importlib
import itertools
import json
import os
import random
import re
import runpy
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recoversat.config import Config, load_config
from recoversat.data.corpus import open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.errors import UserError
from recoversat.files.model_folder import builtin_model
from recoversat.measuring.specs import parse_system
from recoversat.text.tokenizer import load_tokenizer
from recoversat.training.objective import OwnObjective
from recoversat.vocab import N_SPECIAL
from tests.system.tiny_model import write_tiny_model

RECIPES = Path(__file__).parents[2] / "recipes"
PYTHON = Path(sys.executable).parent
STAGES = {
    "ende200k.sh": [
        "corpus", "teacher", "k10", "mixed", "k2", "k5", "nat", "paper-k2", "paper-k5", "paper-k10", "paper-nat",
        "ablations", "mixed12", "mixed-word", "deleting", "both", "all", "words-deleting",
        "words-deleting-long",
    ],
    "neighbours.sh": ["sat", "nat", "cmlm", "ctc", "deep", "deep-mixed"],
    "builtin.sh": ["mono", "back=1", "teacher=1", "back=2", "teacher=2", "student-first", "student", "distill"],
    "tiny.sh": ["sources", "distill", "corpora", "first", "tiny+at"],
}  # fmt: skip


def commands(recipe: str, out: Path, **more: str) -> list[list[str]]:
    """Let a recipe print its commands instead of running them, quoted so that they can be read again."""
    echo = out / "echo"
    echo.write_text(
        '#!/bin/sh\nprintf "%s\\0" "$@" "\n"\n'  # at once: stages side by side share the output
        'if [ "$1" = train ]; then mkdir -p "$4"; fi\n'
    )
    echo.chmod(0o755)
    environment = {**os.environ, "RECOVERSAT": shlex.quote(str(echo)), "STEPS": "70", "TEACHER_STEPS": "70"} | more
    environment = {"TEACHER_END": "70", "END": "70", "PYTHON": str(echo)} | environment
    done = subprocess.run(
        ["bash", str(RECIPES / recipe), "DATA", str(out), *STAGES[recipe]],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.split("\0")[:-1] for line in done.stdout.split("\n\0")[:-1]]


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
        other = {"nat": 17} | dict.fromkeys(("mixed12", "all", "words-deleting-long"), 140)
        other |= dict.fromkeys(("k2", "k5", "k10"), 21)
        assert config.train.steps == other.get(name, 70)
        source = words[words.index("--init-from") + 1] if "--init-from" in words else None
        begun = {
            "teacher": None, "deep-shallow": None, "deep-mixed": "deep-shallow",
            "first": None, "tiny": "first", "at": "first",
            **dict.fromkeys(("k2", "k5", "k10"), "mixed"),
        }.get(name, "teacher")  # fmt: skip
        if recipe == "builtin.sh":  # everything in two parts, and in its own size
            begun = {"teacher-2": "teacher-1", "student": "student-first"}.get(name)
        assert source == (str(tmp_path / begun) if begun else None)


def test_the_teachers_rate_falls_over_its_pieces(tmp_path: Path) -> None:
    for name in ("first-1", "first-2"):
        (tmp_path / name).mkdir()
    run = printed("builtin.sh", tmp_path, "teacher=1", "teacher=2", "teacher=3", PIECES="3", PYTHON="false")
    trainings = [settings_of(words).train for words in run]
    rates = [(one.learning_rate, one.final_learning_rate) for one in trainings]
    assert rates == [
        (3.5e-3, pytest.approx(7e-3 / 3, rel=1e-4)),
        (rates[0][1], pytest.approx(3.5e-3 / 3, rel=1e-4)),
        (rates[1][1], 1e-5),
    ]
    assert [one.warmup for one in trainings] == [300, 60, 60]
    assert [Path(words[1]).name for words in run] == ["first-1", "first-2", "first-2"]  # the newest there is
    assert {one.validate_every for one in trainings} == {18}


def test_the_teacher_learns_from_all_text_and_translates_back_for_its_next_piece(tmp_path: Path) -> None:
    run = commands("builtin.sh", tmp_path)
    writers = {Path(words[words.index("--out") + 1]).name: words[1] for words in run if words[0] == "distill"}
    assert writers["mono-back-2"] == str(tmp_path / "teacher-1")
    assert writers["mono-distilled"] == str(tmp_path / "teacher-2")
    assert "builtin_model" in writers["mono-back-1"]
    joined = [[Path(part).name for part in words[1:]] for words in run if words[0].endswith("join.py")]
    whole = ["corpus", "everyday", "from-en:forward", "from-de:backward"]
    assert joined == [
        ["first-1", *whole, "mono-back-1:turned"], ["first-2", *whole, "mono-back-2:turned"],
        ["second", "sources-distilled", "mono-distilled", "everyday"],
    ]  # fmt: skip


def test_pieces_of_the_teacher_are_compared_on_all_validation_text(tmp_path: Path) -> None:
    for name in ("teacher-1", "teacher-2"):
        (tmp_path / name).mkdir()
    run = printed("builtin.sh", tmp_path, "validate")
    assert [Path(words[words.index("--out") + 1]).name for words in run] == ["en-de", "de-en"]
    for words, to in zip(run, ("de", "en"), strict=True):
        tests = dict(b.split("=") for a, b in itertools.pairwise(words) if a == "--test")
        assert [*tests] == ["ende200k-valid", "ende2-valid", "tests-tst2013", "tests-news-valid"]
        assert tests["tests-news-valid"].endswith(f"DATA/tests/news-valid.{to}")
        assert systems_of(words) == {"teacher-1": {}, "teacher-2": {}}
        assert [parse_system(b).target for a, b in itertools.pairwise(words) if a == "--system"] == [to, to]


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
    run = [words for words in commands("ende200k.sh", out, **more) if "--out" in words]
    return {Path(words[words.index("--out") + 1]).name: words for words in run}


def test_settings_are_everybodys_and_another_corpus_may_be_named(tmp_path: Path) -> None:
    run = ende200k(tmp_path, SETTINGS="model.d_model=256 data.vocab_size=900", CORPUS="multi30k", VALIDATIONS="2")
    assert run["corpus"][run["corpus"].index("--src") + 1] == "DATA/multi30k/train.en.gz"
    assert "--set=data.vocab_size=900" in run["corpus"]
    for name in ("teacher", "mixed", "paper-k2"):
        config = settings_of(run[name])
        assert (config.model.d_model, config.train.validate_every) == (256, -(-config.train.steps // 2))


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


def test_every_training_of_the_papers_recipe_is_the_preset_but_for_length_and_size(tmp_path: Path) -> None:
    run = printed("paper.sh", tmp_path, "teacher", "k2", "k5", "k10", "nat", "ablations", PAPER_STEPS="900", SEED="7")
    trainings = {Path(words[words.index("--out") + 1]).name: words for words in run if words[0] == "train"}
    assert [*trainings] == ["teacher", "paper-k2", "paper-k5", "paper-k10", "paper-nat"]
    for name, words in trainings.items():
        train, kind = settings_of(words).train, settings_of(words).model.kind
        assert (train.seed, settings_of(words).model.d_model) == (7, 256)
        if name != "teacher":
            k = {"paper-k2": 2, "paper-k5": 5, "paper-k10": 10, "paper-nat": 1}[name]
            assert (train.segments, kind) == (k, "nat" if name == "paper-nat" else "segments")
            assert (train.random_prob, train.anneal, train.repeat_prob, train.label_smoothing) == (1, True, 0.5, 0.15)
            assert (train.steps, train.optimizer, train.validate_every) == (900, "adamw", 57)
            assert words[words.index("--init-from") + 1] == str(tmp_path / "teacher")
            assert "--init-decoder" not in words
    sweep = settings_of(["--preset", "iwslt16", *next(words for words in run if words[0] == "sweep")[2:]])
    assert (sweep.model.d_model, sweep.train.seed, sweep.train.batch_tokens) == (256, 7, 16384)


def test_the_papers_recipe_is_measured_at_its_best_and_at_its_last_checkpoint(tmp_path: Path) -> None:
    for step in ("step-00000050", "step-00000100"):
        folder = tmp_path / "paper-k5/checkpoints" / step
        folder.mkdir(parents=True)
        for name in ("config.json", "optimizer.safetensors", "state.json", "stopped"):
            (folder / name).write_text(step)
    for name in ("teacher", "paper-k5", "paper-nat"):
        (tmp_path / name / "best").mkdir(parents=True)
    (tmp_path / "paper-k10").mkdir()  # a training that ended before anything was saved
    fails = {"PAPER_STEPS": "900", "DEADLINE": "1"}
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        printed("paper.sh", tmp_path, "k5", **fails)
    assert "DEADLINE has passed" in stopped.value.stderr
    assert [path.name for path in (tmp_path / "paper-k5-last").iterdir()] == ["config.json"]
    assert (tmp_path / "paper-k5-last/config.json").read_text() == "step-00000100"
    names = ["AT greedy", "AT beam 4", "NAT", "NAT + LPD 9", "RecoverSAT 5", "RecoverSAT 5 last"]
    printed("paper.sh", tmp_path, "write", TESTS="tst2013", DIRECTION="de-en")
    logs = "".join(path.read_text() for path in sorted(tmp_path.glob("write=*.log")))
    written = [line.split("\0")[:-1] for line in logs.split("\n\0")[:-1]]
    assert sorted(name for words in written for name in systems_of(words)) == sorted(names)
    assert len(written) == 4
    assert {words[words.index("--test") + 1] for words in written} == {
        "tst2013=DATA/tests/tst2013.de,DATA/tests/tst2013.en"
    }
    (bench,) = printed("paper.sh", tmp_path, "bench")
    assert [*systems_of(bench)] == names[:-1]
    assert bench[bench.index("--batch") + 1] == "1"
    for words in (*written, bench):
        assert {decode.pop("repairs") for decode in systems_of(words).values()} == {"none"}
    for model, name in (("teacher", "AT beam 4"), ("paper-k5-last", "RecoverSAT 5 last")):
        (tmp_path / "written" / model / "outputs/tst2013").mkdir(parents=True)
        (tmp_path / "written" / model / f"outputs/tst2013/{name}.jsonl").touch()
    (report,) = printed("paper.sh", tmp_path, "report", TESTS="tst2013")
    assert [*systems_of(report)] == ["AT beam 4", "RecoverSAT 5 last"]
    assert report[-2:] == ["--paper", "iwslt16.en-de"]


def test_a_deadline_stops_a_training_politely_and_the_next_start_continues(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    wait = "while :; do sleep 0.05; done"
    slow.write_text(
        f"#!/bin/sh\nsignals=$4.signals\n(trap 'echo worker >> $signals' TERM; {wait}) &\nworker=$!\n"
        f"trap 'echo stopped >> $signals; sleep 0.3; kill -9 $worker; exit 2' TERM\n{wait}\n"
    )
    slow.chmod(0o755)
    command = ["bash", str(RECIPES / "paper.sh"), "DATA", str(tmp_path / "out"), "nat"]
    until = {"RECOVERSAT": shlex.quote(str(slow)), "DEADLINE": str(int(time.time()) + 2)}
    assert subprocess.run(command, env=os.environ | until, check=False).returncode == 124
    assert (tmp_path / "out/paper-nat.signals").read_text() == "stopped\n"  # not its workers, too
    (tmp_path / "out/paper-nat").mkdir(exist_ok=True)
    assert not (tmp_path / "out/paper-nat/done").exists()
    subprocess.run(command, env=os.environ | {"RECOVERSAT": "true"}, check=True)
    assert (tmp_path / "out/paper-nat/done").exists()


def test_seeds_stand_in_one_table_beside_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seed(name: str, beam: float, best: float, last: float) -> str:
        out = tmp_path / name
        (out / "paper").mkdir(parents=True)
        scores = {"AT greedy": beam - 1, "AT beam 4": beam, "RecoverSAT 10": best, "RecoverSAT 10 last": last}
        updates = {"RecoverSAT 10": 50, "RecoverSAT 10 last": 100}
        records = [
            {
                "system": system, "test_set": "t", "bleu": {"value": bleu}, "errors": {"rep": 1.0, "mis": None},
                "steps": {"mean": 4.5}, "signature": {"updates": updates.get(system, 9)},
            }
            for system, bleu in scores.items()
        ]  # fmt: skip
        records.append(records[1] | {"test_set": "u"})
        (out / "paper/results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        (out / "speed-gpu").mkdir()
        rows = [
            {"system": s, "batch": b, "p50_ms": ms}
            for s, ms in (("AT beam 4", 6.0), ("RecoverSAT 10", 1.5))
            for b in (1, 64)
        ]
        rows += [{"system": "RecoverSAT 10", "batch": 64, "p50_ms": 99.0}]
        (out / "speed-gpu/bench.json").write_text(json.dumps({"rows": rows}))
        (out / "paper-k10").mkdir()
        log = [
            {"step": 50, "random_prob": 0.5}, {"step": 50, "validation_bleu": best + 1},
            {"step": 100, "random_prob": 0.01}, {"step": 100, "validation_bleu": last + 1},
        ]  # fmt: skip
        (out / "paper-k10/log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log) + '{"step": 1')
        return str(out)

    def tables(*outs: str) -> dict[str, list[str]]:
        recipe = str(RECIPES / "paper_table.py")
        monkeypatch.setattr(sys, "argv", [recipe, *outs, "--out", str(tmp_path / "made")])
        runpy.run_path(recipe, run_name="__main__")
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in (tmp_path / "made/tables.md").read_text().splitlines()
            if line.startswith("|")
        ]
        return {"+".join(row[: 2 if row[1] in ("best", "last") else 1]): row for row in rows}

    one = tables(first := seed("one", 40.0, 39.0, 38.0))
    assert one["RecoverSAT 10"] == [
        "RecoverSAT 10", "39.00", "-2.5", "1.0", "4.5", "1.50", "4.00", "50", "29.90", "-4.1", "4.68",
    ]  # fmt: skip
    assert one["RecoverSAT 10 last"][1:3] == ["38.00", "-5.0"]
    assert one["RecoverSAT 10+best"][2:] == ["50", "0.50", "40.00", "39.00", "-2.5"]
    assert one["RecoverSAT 10+last"][2:] == ["100", "0.01", "39.00", "38.00", "-5.0"]
    assert one["100"] == ["100", "0.01", "39.00"]
    heads = [line for line in (tmp_path / "made/tables.md").read_text().splitlines() if "Rep %" in line]
    assert ["over beam 4" in line for line in heads] == [True, False]  # the first test set is what was timed
    two = tables(first, seed("two", 20.0, 19.9, 19.0))
    losses = "-1.5 (-2.5 to -0.5)"  # of each seed against its own teacher
    assert two["RecoverSAT 10"][1:3] == ["29.45 (19.90 to 39.00)", losses]
    lines = [json.loads(line) for line in (tmp_path / "made/validation.jsonl").read_text().splitlines()]
    assert lines[-1] == {"seed": 2, "run": "paper-k10", "step": 100, "p": 0.01, "validation_bleu": 20.0}
    with pytest.raises(SystemExit, match="2"):
        tables(str(tmp_path / "nothing"))


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


def test_better_students_have_text_of_their_own(tmp_path: Path) -> None:
    run = commands("ende200k.sh", tmp_path)
    trainings = {Path(words[words.index("--out") + 1]).name: words for words in run if words[0] == "train"}
    read = [Path(trainings[name][1]).name for name in ("both", "all", "mixed12")]
    assert read == ["distilled-both", "distilled-both", "distilled"]
    joined = next(words for words in run if words[0].endswith("join.py"))
    assert joined[1:] == [f"{tmp_path}/{name}" for name in ("distilled-both", "distilled", "corpus")]
    settled = {"mixed-word": ("word", 0.0), "deleting": ("token", 0.2), "all": ("word", 0.0)}
    for name, settings in (settled | dict.fromkeys(("words-deleting", "words-deleting-long"), ("word", 0.2))).items():
        train = settings_of(trainings[name]).train
        assert (train.cut_at, train.delete_tokens) == settings
        assert train.segments == [1, 2, 3, 4, 5, 6, 8, 10]


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


def test_neighbours_are_trained_alike_and_stand_in_one_table(tmp_path: Path) -> None:
    configs = {Path(words[3]).name: settings_of(words) for words in commands("neighbours.sh", tmp_path)}
    kinds = {name: config.model.kind for name, config in configs.items()}
    assert kinds == {
        "sat": "sat", "nat-full": "nat", "cmlm": "cmlm", "ctc": "ctc",
        "deep-shallow": "segments", "deep-mixed": "segments",
    }  # fmt: skip
    own = {"segments", "random_prob", "repeat_prob", "compile", "accumulate", "cut_at"}
    assert len({config.train.model_copy(update=dict.fromkeys(own)) for config in configs.values()}) == 1
    assert configs["sat"].train.segment_choices == [2, 4, 6]
    for name in (*kinds, "teacher", "mixed-word", "words-deleting-long"):
        (tmp_path / name / "best").mkdir(parents=True)
    done = subprocess.run(
        ["bash", str(RECIPES / "neighbours.sh"), "DATA", str(tmp_path), "evaluate"],
        env=os.environ | {"RECOVERSAT": "printf %s\\n"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    systems = [parse_system(line) for line in done.stdout.splitlines() if f"={tmp_path}/" in line]
    assert [one.name for one in systems] == [
        "AT greedy", "AT beam 4", "deep-shallow AT", "NAT", "NAT + LPD 9", "CTC", "CMLM 4", "CMLM 10", "SAT 2", "SAT 4",
        "SAT 6", "RecoverSAT 1", "RecoverSAT 2", "RecoverSAT 5", "RecoverSAT 10", "RecoverSAT auto",
        "RecoverSAT tolerant", "RecoverSAT exact",
        *(f"deep-shallow RecoverSAT {k}" for k in (1, 2, 5, 10, "auto", "tolerant")),
        *(f"long RecoverSAT {k}" for k in (1, 2, 5, 10, "auto", "tolerant", "exact")),
    ]  # fmt: skip
    assert {one.decode.pop("repairs") for one in systems} == {"none"}
    assert [one.decode for one in systems if one.decode] == [
        {"iterations": "4"}, {"iterations": "10"},
        {"exact": "true", "tolerance": "0.5"}, {"quality": "exact"}, {"exact": "true", "tolerance": "0.5"},
        {"exact": "true", "tolerance": "0.5"}, {"quality": "exact"},
    ]  # fmt: skip


def printed(recipe: str, out: Path, *stages: str, **more: str) -> list[list[str]]:
    """Return the commands of some stages; Python is the real one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(STAGES, recipe, [*stages])
        return commands(recipe, out, **{"PYTHON": sys.executable} | more)


def systems_of(words: list[str]) -> dict[str, dict[str, object]]:
    """Return how each system of `evaluate` or `bench` decodes."""
    named = [parse_system(b) for a, b in itertools.pairwise(words) if a == "--system"]
    return {one.name: one.decode for one in named}


def test_tiny_is_measured_beside_its_equal(tmp_path: Path) -> None:
    (tmp_path / "at-ct2-map").mkdir()
    run = printed("tiny.sh", tmp_path, "export", "evaluate", "bench", PATH=f"{PYTHON}:{os.environ['PATH']}")
    assert [words[0] for words in run].count("evaluate") == 2
    for words in (words for words in run if words[0] == "evaluate"):
        assert words.count("--test") == 7
        assert {"AT", "tiny 1", "tiny 5", "tiny by length 30", "tiny by length 30 joined"} <= systems_of(words).keys()
    timed = systems_of(next(words for words in run if words[0] == "bench"))
    assert {"tiny 2 list", "CTranslate2 map", "built-in"} <= timed.keys()
    kept = load_config(RECIPES / "builtin" / "tiny.yaml").decode
    by_length = {key: float(str(timed["tiny by length 30"][key])) for key in ("segment_length", "most_segments")}
    assert by_length == kept.model_dump(include=set(by_length))


def test_tiny_does_not_take_the_built_in_models_folders_for_its_own(tmp_path: Path) -> None:
    (tmp_path / "teacher-1").mkdir()
    with pytest.raises(subprocess.CalledProcessError) as refused:
        commands("tiny.sh", tmp_path)
    assert "take another folder" in refused.value.stderr


def test_going_on_differs_in_the_loss_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RECIPES)
    run = printed("go_on.sh", tmp_path, "distill", "gold", "own", "evaluate")
    trainings = [words for words in run if words[0] == "train"]
    gold, own = (settings_of(words).train for words in trainings)
    assert (gold.objective, own.objective) == (None, "own_words:own_words")
    assert own.model_copy(update={"objective": None}) == gold
    assert OwnObjective.load("own_words:own_words")
    built_in = str(builtin_model("en", "de"))
    for words in trainings:
        assert words[words.index("--init-from") + 1] == built_in
        assert settings_of(words).model.d_model == 512
    for words in (words for words in run if words[0] == "evaluate"):
        assert len(systems_of(words)) == 9


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(RECIPES / "builtin")
    yield
    for name in ("dictionary", "phrases", "travel", "roughen", "join", "losses", "pairs", "sources", "vmap"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    "name", ["card", "dictionary", "join", "losses", "pairs", "phrases", "roughen", "sources", "travel"]
)
def test_examples_of_the_recipe_are_true(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed


@pytest.mark.usefixtures("made")
def test_phrases_hold_nothing_that_the_model_is_judged_with() -> None:
    phrases = importlib.import_module("phrases")
    lists = [phrases.pairs_of(RECIPES / f"builtin/{name}.tsv") for name in ("first", "second", "third")]
    judged = phrases.words_of([pair for one in lists for pair in one])
    lines = phrases.phrases(3000)
    assert len(lines) == 3000
    assert lines == phrases.phrases(3000)
    assert not judged & phrases.words_of(lines)
    assert [len(one) for one in lists] == [100, 100, 100]
    assert not any("{" in side or ".." in side for pair in lines for side in pair)
    written = phrases.pairs_of(RECIPES / "builtin/phrases.tsv")
    assert not phrases.words_of(lists[0]) & phrases.words_of(written)
    assert set(written) & set(lines)


@pytest.mark.usefixtures("made")
def test_pairs_hold_nothing_of_it_either(tmp_path: Path) -> None:
    phrases, pairs = importlib.import_module("phrases"), importlib.import_module("pairs")
    english, german = phrases.pairs_of(RECIPES / "builtin/third.tsv")[0]
    kept = ("The sun is shining today.", "Die Sonne scheint heute.")
    other = (
        (english.upper(), "Etwas ganz anderes."),
        ("Something else is here.", german),
        (f"{kept[0]} {english}", "Ja."),
    )
    rows = [(english, german), *other, kept]
    for name, column in (("en", [row[0] for row in rows]), ("de", [row[1] for row in rows]), ("origin", ["chat"] * 5)):
        with gzip.open(tmp_path / f"train.{name}.gz", "wt") as stream:
            stream.writelines(f"{one}\n" for one in column)
    assert list(pairs.chosen([tmp_path], {"chat": 1})) == [(*kept, "chat")]


@pytest.mark.usefixtures("made")
def test_times_and_prices_say_the_same_in_both_languages() -> None:
    phrases, rng = importlib.import_module("phrases"), random.Random(3)
    for _ in range(500):
        english, german = phrases.clock(rng)
        hour, minute = re.match(r"(\d+)(?:[:.](\d+))?", german).groups(default="0")
        shown = re.match(r"(\d+)(?::(\d+))?(?: ([ap])\.?m\.?)?$", english).groups()
        assert int(minute) == int(shown[1] or 0)
        twelve = {"p": int(shown[0]) % 12 + 12, "a": int(shown[0]) % 12, None: int(shown[0])}[shown[2]]
        assert int(hour) == twelve
        english, german = phrases.price(rng)
        assert english[1:] == german[:-2].replace(".", "_").replace(",", ".").replace("_", ",")
        assert english[0] == german[-1]
        english, german = phrases.opening_hours(rng)
        (first, last), (begin, end) = (map(int, re.findall(r"\d+", side)) for side in (english, german))
        assert (first, last + 12) == (begin, end)


@pytest.mark.usefixtures("made")
def test_times_in_words_name_the_hour_that_german_names() -> None:
    phrases, rng = importlib.import_module("phrases"), random.Random(3)
    said = dict(phrases.spoken(rng) for _ in range(3000))
    assert said["half past three"] == "halb vier"
    assert said["half past twelve"] == "halb eins"
    assert said["one o'clock"] == "ein Uhr"
    assert said["a quarter to one"] == "Viertel vor eins"
    assert said["ten past one"] == "zehn nach eins"


@pytest.mark.usefixtures("made")
def test_nouns_are_declined() -> None:
    phrases = importlib.import_module("phrases")
    words = [phrases.forms(*row) for row in phrases.rows_of(RECIPES / "builtin/nouns.tsv")]
    assert len({word["noun"] for word in words}) == len(words)
    cases = {word["noun"][0]: [word[name][1] for name in ("the", "accusative", "dative")] for word in words}
    assert cases["fridge"] == ["der Kühlschrank", "den Kühlschrank", "dem Kühlschrank"]
    assert cases["socket"] == ["die Steckdose", "die Steckdose", "der Steckdose"]
    assert cases["colleague"] == ["der Kollege", "den Kollegen", "dem Kollegen"]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("german", "said"),
    [
        ("der Hund", ["alter Hund", "der alte Hund", "den alten Hund", "ein alter Hund", "einen alten Hund"]),
        ("die Tür", ["alte Tür", "die alte Tür", "die alte Tür", "eine alte Tür", "eine alte Tür"]),
        ("das Haus", ["altes Haus", "das alte Haus", "das alte Haus", "ein altes Haus", "ein altes Haus"]),
    ],
)
def test_adjectives_are_declined(german: str, said: list[str]) -> None:
    phrases = importlib.import_module("phrases")
    forms = phrases.forms("thing", german, adjective=("old", "alt"))
    assert [forms[name][1] for name in ("noun", "the", "accusative", "a", "a accusative")] == said
    assert {forms[name][1].split()[1] for name in ("dative", "a dative", "my dative")} == {"alten"}
    assert (forms["A"][0], forms["My"][1].split()[0][:4]) == ("An old thing", "Mein")


@pytest.mark.usefixtures("made")
def test_rough_copies_stay_pairs() -> None:
    roughen = importlib.import_module("roughen")
    pairs = [(f"Sentence {n} of the text.", f"Satz {n} des Textes.") for n in range(2000)]
    copies = roughen.rough(pairs, 0.5)
    assert 850 < len(copies) < 1150
    assert all(re.findall(r"\d+", english) == re.findall(r"\d+", german) for english, german in copies)
    kinds = {
        "capitals": sum(pair[0].isupper() and pair[1].isupper() for pair in copies),
        "small": sum(pair[0][0].islower() and pair[1][0].islower() for pair in copies),
        "several": sum(pair[0].count(".") == pair[1].count(".") > 1 for pair in copies),
        "unfinished": sum(pair[0][-1].isdigit() or pair[0].endswith("text") for pair in copies),
    }
    assert min(kinds.values()) > 80, kinds


@pytest.mark.usefixtures("made")
def test_pairs_are_taken_as_often_as_their_origin_weighs(tmp_path: Path) -> None:
    pairs = importlib.import_module("pairs")
    rows = [(f"This is the line {n}.", f"Das ist die Zeile {n}.", "often" if n % 2 else "rare") for n in range(400)]
    rows += [("The same.", "The same of it is this.", "often"), ("Secret.", "Geheim.", "closed"), rows[1]]
    for side, name in enumerate(("en", "de", "origin")):
        with gzip.open(tmp_path / f"train.{name}.gz", "wt") as stream:
            stream.writelines(f"{row[side]}\n" for row in rows)
    taken = list(pairs.chosen([tmp_path], {"often": 2, "rare": 0.25}))
    assert sum(origin == "often" for *_, origin in taken) == 400
    assert 30 < sum(origin == "rare" for *_, origin in taken) < 70
    assert not [pair for pair in taken if pair[2] == "closed"]


@pytest.mark.usefixtures("made")
def test_written_text_is_an_origin_of_its_own(tmp_path: Path) -> None:
    pairs = importlib.import_module("pairs")
    (tmp_path / "b.tsv").write_text("# phone\nWho is calling?\tWer ist da?\n", encoding="utf-8")
    (tmp_path / "a.tsv").write_text("It is raining.\tEs regnet.\n", encoding="utf-8")
    one, other = ("It is raining.", "Es regnet.", "written"), ("Who is calling?", "Wer ist da?", "written")
    assert list(pairs.chosen([tmp_path], {"written": 2})) == [one, one, other, other]
    assert not list(pairs.chosen([tmp_path], {"chat": 1}))


def test_neighbours_stand_in_one_table_with_their_speedups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = "Test set|System|K|BLEU|vs baseline|chrF2++|TER|Rep %|Mis %|Step"
    rows = [
        "t|AT beam 4|1|34.5|+1.0 (p = 0.004)|57|55|0|0|22.1", "t|SAT 4|4|31.5|–|55|58|50|-4.9|5.6",
        "other|AT beam 4|1|21.5|+1.0 (p = 0.004)|57|55|0|0|9",
    ]  # fmt: skip
    report = "\n".join(f"|{line}|" for line in [heads, ":-|" * 9 + ":-", *rows])
    (tmp_path / "report.md").write_text(f"# Evaluation\n\n{report}\n\n|another|table|\n")
    times = ["system|batch|p50 ms|sentences/s", ":--|--:|--:|--:", "AT beam 4|1|6.0|1", "AT beam 4|64|9|100"]
    times += ["SAT 4|1|1.5|1", "SAT 4|64|9|450"]
    (tmp_path / "speed-cuda.md").write_text("\n".join(f"|{line}|" for line in times))
    (tmp_path / "speed-native.md").write_text("\n".join(f"|{line}|" for line in [*times[:2], "SAT 4|1|0.5|1"]))
    recipe, out = str(RECIPES / "neighbours_table.py"), tmp_path / "new" / "out"
    monkeypatch.setattr(sys, "argv", [recipe, str(tmp_path), "--out", str(out), "--paper", "iwslt16.en-de"])
    runpy.run_path(recipe, run_name="__main__")
    made = (out / "table.md").read_text().splitlines()
    assert (
        made[2] == "| AT beam 4 | 34.5 | 0.004 | 57 | 55 | 0 | 0 | 22.1 | 6.0 | 1.0x | 100 | 1.0x |  |  |  |  |"
    )  # no CPU's columns
    assert made[3] == "| SAT 4 | 31.5 |  | 55 | 58 | 50 | -4.9 | 5.6 | 1.5 | 4.0x | 450 | 4.5x | 0.5 |  |  |  |"
    assert made[4].startswith("| paper: ")  # the second test set is in the report alone
    assert made[-1] == "| paper: RecoverSAT (K=10) | 29.90 |" + "  |" * 7 + " 4.68x |" + "  |" * 6
    assert len({line.count("|") for line in made}) == 1
    assert "SAT 4" in (out / "quality-speed-cuda.svg").read_text()
    assert "batch 64" in (out / "quality-speed-cuda-64.svg").read_text()
    assert not (out / "quality-speed-cpu.svg").exists()
    (tmp_path / "report.md").write_text("# Evaluation")
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(recipe, run_name="__main__")


def test_what_each_model_writes_is_put_together(tmp_path: Path) -> None:
    for model in ("sat", "cmlm", "teacher"):
        (tmp_path / model).mkdir()
    write = ["bash", str(RECIPES / "neighbours.sh"), "DATA", str(tmp_path), "write"]
    for models, said in (("sat teacher", "no model whose training has ended"), ("", "name models")):
        refused = subprocess.run(
            write,
            env=os.environ | {"RECOVERSAT": "true", "MODELS": models},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (refused.returncode, said in refused.stderr) == (1, True)
    for model in ("sat", "teacher"):
        (tmp_path / model / "done").touch()
    (written,) = printed("neighbours.sh", tmp_path, "write", MODELS="teacher sat", TESTS="tst2013")
    assert [*systems_of(written)] == ["AT greedy", "AT beam 4", "SAT 2", "SAT 4", "SAT 6"]
    assert written[-1] == str(tmp_path / "written" / "teacher+sat")
    outputs = {"neighbours": ["AT beam 4"], "written/teacher+sat": ["AT beam 4", "SAT 4"], "written/cmlm": ["CMLM 4"]}
    for folder, names in outputs.items():
        (tmp_path / folder / "outputs" / "tst2013").mkdir(parents=True)
        for name in names:
            (tmp_path / folder / "outputs" / "tst2013" / f"{name}.jsonl").touch()
    (report,) = printed("neighbours.sh", tmp_path, "report", TESTS="tst2013 tst2014")
    named = [parse_system(b) for a, b in itertools.pairwise(report) if a == "--system"]
    assert [one.name for one in named] == ["AT beam 4", "CMLM 4", "SAT 4"]
    assert named[0].path == f"{tmp_path}/neighbours/outputs/{{test}}/AT beam 4.jsonl"
    assert report[-3:] == [str(tmp_path / "teacher"), "--out", str(tmp_path / "neighbours")]


def test_what_was_trained_again_is_exported_again(tmp_path: Path) -> None:
    for name in ("ctc", "ctc-int8", "sat", "sat-int8", "cmlm"):
        (tmp_path / name).mkdir()
    (tmp_path / "sat" / "done").touch()
    for name in ("sat-int8", "ctc-int8"):
        os.utime(tmp_path / name)
    os.utime(tmp_path / "sat" / "done", (1, 1))
    (tmp_path / "ctc" / "done").touch()
    os.utime(tmp_path / "ctc-int8", (2, 2))
    run = printed("neighbours.sh", tmp_path, "bench-cpu")
    assert [Path(words[1]).name for words in run if words[0] == "export"] == [
        "ctc"
    ]  # sat is as it was, cmlm unfinished
    assert not (tmp_path / "ctc-int8").exists()
    assert run[-1][0] == "bench"
    *_, native = printed("neighbours.sh", tmp_path, "bench-native")
    specs = [parse_system(b) for a, b in itertools.pairwise(native) if a == "--system"]
    assert {(Path(one.path).name, one.compute) for one in specs} == {("sat-int8", "int8")}
    assert native[-1] == str(tmp_path / "speed-native")
    (tmp_path / "speed-cpu").mkdir()
    failing = ["bash", str(RECIPES / "neighbours.sh"), "DATA", str(tmp_path), "bench-cpu"]
    assert subprocess.run(failing, env=os.environ | {"RECOVERSAT": "false"}, check=False).returncode == 1
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(STAGES, "neighbours.sh", ["bench-cpu"])
        assert not [words for words in commands("neighbours.sh", tmp_path) if words[0] == "bench"]


@pytest.mark.usefixtures("made")
def test_ctranslate2_gets_the_same_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vmap, folder, peer = importlib.import_module("vmap"), write_tiny_model(tmp_path / "model"), tmp_path / "peer"
    tokenizer = load_tokenizer(folder)
    size, a, b = tokenizer.size, N_SPECIAL + 3, N_SPECIAL + 5
    common = np.zeros((1, size), dtype=bool)
    common[0, [a, b]] = True
    likeliest = np.full((size, 2), a, dtype=np.int32)
    likeliest[b] = [a, b + 1]
    Shortlist(likeliest, np.array([], dtype=np.int64), common).save(folder / TABLE)
    peer.mkdir()
    (peer / "model.bin").touch()
    monkeypatch.setattr(sys, "argv", ["", str(folder), str(peer), str(tmp_path / "out"), "--to", ""])
    vmap.main()
    pieces, rows = tokenizer.pieces(range(size)), (tmp_path / "out/vmap.txt").read_text().splitlines()
    written = {source: targets.split(" ") for source, targets in (row.split("\t") for row in rows)}
    assert written[""] == [pieces[a], pieces[b]]
    assert written[pieces[b]] == [pieces[a], pieces[b], pieces[b + 1]]
    assert len(written) == 1 + size - N_SPECIAL
    assert (tmp_path / "out/model.bin").exists()


@pytest.mark.usefixtures("made")
def test_monolingual_text_is_translated_once_and_back_translation_ends_in_a_persons_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, sources = importlib.import_module("join"), importlib.import_module("sources")
    lines = {
        "en": [f"A line with number {n} in it." for n in range(9)],
        "de": ["Eine Zeile auf Deutsch.", "??? --- !!!"],
    }
    for side, text in lines.items():
        (tmp_path / f"{side}.txt").write_text("\n".join((text * 9)[:9]) + "\n")
        origins = ["gum"] * len(text) + ["gum", "closed", "gum"]
        judged = {"en": "good morning how are you", "de": "Guten Morgen, wie geht es Ihnen?"}[side]  # of first.tsv
        for name, rows in {f"mono.{side}": [*text, text[0], "Secret.", judged], f"mono.{side}.origin": origins}.items():
            with gzip.open(tmp_path / f"{name}.gz", "wt") as stream:
                stream.writelines(f"{row}\n" for row in rows)
    settings = {
        "src_lang": "en",
        "tgt_lang": "de",
        "both_directions": "true",
        "vocab_size": "320",
        "drop_duplicates": "false",
    }
    config = load_config(None, None, [f"data.{key}={value}" for key, value in settings.items()])
    prepare(TextPairs(tmp_path / "en.txt", tmp_path / "de.txt"), tmp_path / "corpus", config.data, quiet=True)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "mono"), str(tmp_path / "corpus"), "--mono", str(tmp_path)])
    sources.main()
    mono = open_corpus(tmp_path / "mono")
    texts = sorted(mono.tokenizer.decode(mono.train.src[i].tolist()) for i in range(len(mono.train)))
    assert texts == sorted([*lines["en"], lines["de"][0]])  # none twice, none of a closed origin, no table
    asked = [mono.tokenizer.pieces(mono.train.src[i].tolist())[0] for i in range(len(mono.train))]
    assert (asked.count("<2de>"), asked.count("<2en>")) == (9, 1)  # into the other language

    travel = importlib.import_module("travel")
    for name in ("corpus", "mono"):
        travel.pack(tmp_path / name, tmp_path / "packed" / name)
        travel.unpack(tmp_path / "packed" / name, tmp_path / "restored" / name)
        own, restored = (open_corpus(folder / name) for folder in (tmp_path, tmp_path / "restored"))
        assert restored.fingerprint == own.fingerprint
        assert restored.train.tgt.ids.tolist() == own.train.tgt.ids.tolist()
        assert restored.valid_src == own.valid_src
    assert not (tmp_path / "packed/mono/train.tgt.xz").exists()
    assert (tmp_path / "packed/corpus/train.tgt.xz").exists()

    join.join(tmp_path / "first", [str(tmp_path / "corpus"), f"{tmp_path / 'mono'}:turned"])
    with pytest.raises(UserError, match="cannot be packed"):
        travel.pack(tmp_path / "first", tmp_path / "packed/first")
    manifest = tmp_path / "packed/mono/corpus.json"
    manifest.write_text(manifest.read_text().replace(mono.fingerprint, "another"))
    with pytest.raises(UserError, match="damaged"):
        travel.unpack(tmp_path / "packed/mono", tmp_path / "restored/again")
    first = open_corpus(tmp_path / "first").train
    assert len(first) == 18 + 10
    tags = {tag: mono.tokenizer.encode([""], tag)[0][0] for tag in ("<2de>", "<2en>")}
    for i in range(10):  # here the translation is the text itself: what matters is the tag
        was, now = mono.train.src[i].tolist(), first.src[18 + i].tolist()
        assert (now[0], now[1:]) == ({tags["<2de>"]: tags["<2en>"], tags["<2en>"]: tags["<2de>"]}[was[0]], was[1:])
        assert first.tgt[18 + i].tolist() == was[1:]


def test_untrained_peers_are_drawn_beside_trained_models(tmp_path: Path) -> None:
    def run(name: str, instructions: list[str], **systems: float) -> str:
        rows = [{"system": who, "batch": batch, "p50_ms": ms} for who, ms in systems.items() for batch in (1, 64)]
        machine = {"processor": "P", "instructions": instructions}
        (tmp_path / name).write_text(json.dumps({"rows": rows, "bleu": {"ours": 30.5}, "machine": machine}))
        return str(tmp_path / name)

    ours, peer, other = (
        run("ours", ["avx2"], ours=2.0), run("peer", ["avx2"], Marian=11.0), run("other", ["avx"], Marian=11.0)
    )  # fmt: skip
    command = [sys.executable, str(RECIPES / "builtin" / "tiny_plot.py"), ours]
    rest = ["--peer", "Marian", "--out", str(tmp_path)]
    subprocess.run([*command, peer, *rest], check=True)
    svg = (tmp_path / "beside-peers.svg").read_text()
    assert svg.count("Marian (untrained)") == 1
    refused = subprocess.run([*command, other, *rest], capture_output=True, text=True, check=False)
    assert "two kinds of processor" in refused.stderr
