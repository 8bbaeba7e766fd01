"""`fit` on a real sample: killed in every stage, it ends with the same model; finished, it does nothing."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recoversat.data.corpus import open_corpus
from recoversat.files.storage import read_json
from recoversat.model.weights import read_weights
from tests.system.conftest import Run
from tests.system.forking import Forked

SAMPLE = Path(__file__).parents[1] / "data"
TINY = {
    "train.steps": 90, "train.validate_every": 30, "train.warmup": 20, "train.learning_rate": 5e-3,
    "train.batch_tokens": 512, "train.workers": 0, "train.tensorboard": False, "data.vocab_size": 400,
    "model.d_model": 48, "model.d_hidden": 64, "model.encoder_layers": 1, "model.decoder_layers": 1,
    "model.dropout": 0.1,
}  # fmt: skip
STAGES = ["corpus", "teacher", "teacher model", "distill", "student", "model", "report"]


def arguments(out: Path, data: Path = SAMPLE, **changes: object) -> list[str]:
    settings = [part for key, value in (TINY | changes).items() for part in ("--set", f"{key}={value}")]
    files = ["--src", str(data / "tatoeba.en"), "--tgt", str(data / "tatoeba.de")]
    return ["fit", *files, "--out", str(out), "--segments", "3", *settings]


def sample(folder: Path, n_pairs: int) -> Path:
    """Write the first pairs of the sample into a folder."""
    for name in ("tatoeba.en", "tatoeba.de"):
        lines = (SAMPLE / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:n_pairs]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, recoversat: Run) -> Path:
    out = tmp_path_factory.mktemp("fit") / "out"
    recoversat(*arguments(out))
    return out


def kill_in(stage: str, out: Path) -> None:
    """Start `fit`, wait for a stage to begin and kill it a random moment later."""
    begins = re.compile(rf"^\[\d/7\] {stage}: (?!done before).*\n", re.MULTILINE)
    with Forked(arguments(out)) as process:
        while process.poll() is None and not begins.search(process.said):
            time.sleep(0.005)
        time.sleep(random.Random(time.time_ns()).random() * 0.7)


def test_killed_in_every_stage_it_ends_with_the_same_model(finished: Path, tmp_path: Path, recoversat: Run) -> None:
    out = tmp_path / "out"
    for stage in STAGES:
        kill_in(stage, out)
    recoversat(*arguments(out))
    for model in ("teacher-model", "model"):
        ours, theirs = read_weights(out / model), read_weights(finished / model)
        assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)
    for corpus in ("corpus", "distilled"):
        assert open_corpus(out / corpus).fingerprint == open_corpus(finished / corpus).fingerprint
    assert read_json(out / "summary.json", "fit") == read_json(finished / "summary.json", "fit")
    assert not [path for path in out.rglob(".*") if "partial" in path.name or "retired" in path.name]


def test_what_is_left_behind_works(finished: Path, recoversat: Run) -> None:
    figures = read_json(finished / "summary.json", "fit")["systems"]
    assert [figure["system"] for figure in figures] == ["AT greedy", "AT beam 4", "RecoverSAT K=3"]
    assert {path.name for path in (finished / "report").iterdir()} >= {"report.html", "report.md"}
    assert {path.name for path in (finished / "report" / "plots").glob("learning-*.svg")} == {
        "learning-bleu.svg", "learning-loss.svg",
    }  # fmt: skip
    page = (finished / "report" / "report.html").read_text(encoding="utf-8")
    assert "Learning: validation BLEU over updates" in page
    examples = (finished / "report" / "report.md").read_text(encoding="utf-8").partition("**Examples from valid**")[2]
    assert re.search(r"\| Line \| Source +\| Reference +\| AT beam 4 +\| RecoverSAT K=3 +\|", examples)
    assert len(re.findall(r"^\| \d+ +\|", examples, re.MULTILINE)) == 20
    manifest = open_corpus(finished / "distilled").manifest
    assert manifest["distilled"]["beam"] == 4
    assert manifest["distilled"]["teacher_bleu"] is not None
    assert manifest["report"]["read"] == manifest["report"]["kept"] + manifest["report"]["dropped"]
    assert len(recoversat("translate", "--model", finished, stdin="I like dogs.\n").stdout.splitlines()) == 1


def test_started_again_it_does_nothing_and_says_so(finished: Path, recoversat: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert "finished already, nothing to do" in recoversat(*arguments(finished)).stderr
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_changes_are_named_and_refused(finished: Path, recoversat: Run) -> None:
    changed = recoversat(*arguments(finished, **{"train.seed": 5}), expect=2).stderr
    assert "student train.seed: 1 -> 5" in changed
    assert "--force" in changed


def test_a_finished_student_is_extended_and_its_teacher_left_alone(tmp_path: Path, recoversat: Run) -> None:
    out, data = tmp_path / "out", sample(tmp_path, 40)
    recoversat(*arguments(out, data, **{"train.steps": 60}))
    teacher, model = (read_weights(out / name) for name in ("teacher-model", "model"))
    more = {"train.steps": 90}
    refused = recoversat(*arguments(out, data, **more), expect=2).stderr
    assert "leave it so with --teacher-set train.steps=60" in refused
    keep = ["--teacher-set", "train.steps=60"]
    assert "train.schedule_steps=60" in recoversat(*arguments(out, data, **more), *keep, expect=2).stderr
    more["train.schedule_steps"] = 60
    other = recoversat(*arguments(out, data, **more, **{"train.seed": 9}), *keep, expect=2).stderr
    assert "student train.seed: 1 -> 9" in other
    assert (out / "model").is_dir()  # whatever was refused has cost nothing
    assert read_json(out / "summary.json", "fit")
    said = recoversat(*arguments(out, data, **more), *keep).stderr
    assert "student: extended from 60 to 90 updates" in said
    assert "[2/7] teacher: done before" in said
    assert re.search(
        r"^\[5/7\] student: update 90: loss \d+\.\d+, validation BLEU \d+\.\d+ \(.*\)$", said, re.MULTILINE
    )
    assert all(bool((read_weights(out / "teacher-model")[name] == teacher[name]).all()) for name in teacher)
    assert read_json(out / "model" / "config.json", "model")["train"]["steps"] == 90
    assert not all(bool((read_weights(out / "model")[name] == model[name]).all()) for name in model)
    assert "finished already" in recoversat(*arguments(out, data, **more), *keep).stderr


def test_dry_run_prints_the_plan_alone(tmp_path: Path, recoversat: Run) -> None:
    done = recoversat(*arguments(tmp_path / "out"), "--dry-run")
    assert all(f"{number}. {stage}:" in done.stderr for number, stage in enumerate(STAGES, 1))
    assert not (tmp_path / "out").exists()
    missing = recoversat(
        *arguments(tmp_path / "out"), "--test-src", "no.en", "--test-tgt", "no.de", "--dry-run", expect=2
    )
    assert "no.en: no such file" in missing.stderr


def test_the_student_starts_from_the_teacher_as_far_as_it_can(finished: Path, tmp_path: Path, recoversat: Run) -> None:
    def plan(*options: str) -> str:
        return recoversat(*arguments(tmp_path / "out"), *options, "--dry-run").stderr

    assert "from the teacher's weights" in plan()
    assert "from the teacher's weights" in plan("--teacher-set", "model.decoder_layers=2")
    assert "from the teacher's encoder" in plan("--encoder-only")
    assert "repairs of what the student writes: join_overlaps, cut_loops, whole_characters, never_empty" in plan()
    sizes = ("--set", "model.n_heads=2", "--preset", "iwslt16")
    assert "from the teacher's encoder" in plan(*sizes)
    assert "repairs of what the student writes: none, as in the paper" in plan(*sizes)
    assert "from the teacher's weights" in plan(*sizes, "--init-decoder")
    assert "from the teacher's encoder" in plan(
        "--set", "model.decoder_layers=2", "--teacher-set", "model.decoder_layers=1"
    )
    shallow = "note: one decoder layer was too few for segments"
    assert [shallow in said for said in (plan(), plan("--set", "model.decoder_layers=2"))] == [True, False]
    facts = read_json(finished / "model" / "config.json", "model")["facts"]
    assert facts["initialised_from"].endswith("(encoder. embedding. decoder.)")


def test_a_teacher_of_another_size_is_refused_before_it_is_trained(tmp_path: Path, recoversat: Run) -> None:
    refused = recoversat(*arguments(tmp_path / "out"), "--teacher-set", "model.d_model=64", expect=2).stderr
    assert "model.d_model is 48, the teacher's is 64" in refused
    assert "--set model.d_model=64" in refused
    assert not (tmp_path / "out").exists()


def test_both_directions_are_named_and_measured(tmp_path: Path, recoversat: Run) -> None:
    out, data = tmp_path / "out", sample(tmp_path, 40)
    both = {"data.both_directions": "true", "train.steps": 60}
    test = ["--test-src", str(data / "tatoeba.en"), "--test-tgt", str(data / "tatoeba.de")]
    said = recoversat(*arguments(out, data, **both), *test).stderr
    figures = read_json(out / "summary.json", "fit")["systems"]
    assert list(dict.fromkeys(figure["test_set"] for figure in figures)) == ["valid", "test en-de", "test de-en"]
    tagged = (out / "test de-en.src").read_text(encoding="utf-8").splitlines()
    assert tagged == [f"<2en>{line}" for line in (data / "tatoeba.de").read_text(encoding="utf-8").splitlines()]
    assert "fit: en <-> de, K = 3" in said
    assert "\nen <-> de\n" in said
    assert "en -> de" not in said
    for text in (out / "model" / "README.md", out / "report" / "report.md"):
        assert "en <-> de" in text.read_text(encoding="utf-8").splitlines()[0]
    assert "fit: en -> de" in recoversat(*arguments(tmp_path / "other"), "--dry-run").stderr


def test_five_pairs_leave_none_for_validation_and_it_is_said(tmp_path: Path, recoversat: Run) -> None:
    out = tmp_path / "out"
    said = recoversat(*arguments(out, sample(tmp_path, 5))).stderr
    assert "7. report: nothing to measure, as there is no validation text (fewer than 20 pairs leave none)" in said
    assert "no validation text; kept teacher-average" in said
    assert "BLEU" not in said
    assert "None" not in said
    assert said.rstrip().endswith("add --valid-src and --valid-tgt, or --test-src and --test-tgt")
    assert len(recoversat("translate", "--model", out, stdin="I like dogs.\n").stdout.splitlines()) == 1


def test_distilling_refuses_other_settings_and_shares_the_work(finished: Path, tmp_path: Path, recoversat: Run) -> None:
    base = ["distill", finished / "teacher-model", finished / "corpus", "--shard-size", 500]
    whole = tmp_path / "whole"
    killed = subprocess.Popen([sys.executable, "-m", "recoversat", *map(str, base), "--out", str(whole)])
    while killed.poll() is None and not list(tmp_path.glob("whole.shards/shard-000000.npz")):
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    first = tmp_path / "whole.shards" / "shard-000000.npz"
    made = first.stat().st_mtime_ns
    refused = recoversat(*base, "--out", whole, "--beam", 2, expect=2)
    assert "beam: 4 -> 2" in refused.stderr
    assert first.stat().st_mtime_ns == made
    both = [Forked([*base, "--out", whole], RANK=str(rank), WORLD_SIZE="2") for rank in (0, 1)]
    with both[0], both[1]:
        assert [process.wait() for process in both] == [0, 0]
    assert open_corpus(whole).fingerprint == open_corpus(finished / "distilled").fingerprint
    assert not (tmp_path / "whole.shards").exists()


def test_the_one_step_baseline_goes_through_the_same_commands(finished: Path, tmp_path: Path, recoversat: Run) -> None:
    settings = [part for key, value in (TINY | {"train.steps": 30}).items() for part in ("--set", f"{key}={value}")]
    nat = ["--set", "model.kind=nat", "--set", "train.segments=1", "--set", "model.n_heads=4"]
    teacher = finished / "teacher-model"
    run = tmp_path / "nat"
    recoversat("train", finished / "distilled", "--out", run, *settings, *nat, "--init-from", teacher)
    text = "I like dogs.\nHe is here.\n"
    plain = recoversat("translate", "--model", run, stdin=text).stdout
    judged = recoversat("translate", "--model", run, "--teacher", teacher, "--lengths", 5, stdin=text).stdout
    assert len(plain.splitlines()) == len(judged.splitlines()) == 2
    test = f"t={finished / 'corpus' / 'valid.src'},{finished / 'corpus' / 'valid.tgt'}"
    lpd = f"lpd={run}:teacher={teacher}:lengths=5"
    systems = ["--system", f"nat={run}", "--system", lpd, "--system", f"at={teacher}"]
    done = recoversat("evaluate", *systems, "--test", test, "--at", "at", "--samples", 10, "--out", tmp_path / "report")
    assert "| nat" in done.stdout
    assert "| lpd" in done.stdout
    wrong = recoversat("train", finished / "distilled", "--out", tmp_path / "x", *settings, *nat[:2], expect=2)
    assert "writes one segment: add train.segments=1" in wrong.stderr


def test_scores_are_those_beam_search_reports(finished: Path, tmp_path: Path, recoversat: Run) -> None:
    (tmp_path / "a.en").write_text("I like dogs.\nHe is here.\n")
    (tmp_path / "a.de").write_text("Ich mag Hunde.\nEr ist hier.\n")
    files = ["--src", tmp_path / "a.en", "--tgt", tmp_path / "a.de"]
    plain = recoversat("score", "--model", finished / "teacher-model", *files).stdout.split()
    assert len(plain) == 2
    assert all(float(value) < 0 for value in plain)
    (tmp_path / "a.de").write_text("Ich mag Hunde.\n\n")
    assert "a.de, line 2: empty" in recoversat("score", "--model", finished, *files, expect=2).stderr
