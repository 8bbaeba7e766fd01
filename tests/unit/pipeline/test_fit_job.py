"""`fit --dry-run` refuses what the run would refuse, and neither touches anything when it does."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.errors import UserError
from recoversat.files.storage import held

SAMPLE = Path(__file__).parents[2] / "data"
Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Return what `fit` says when it refuses, which is the same with --dry-run; it leaves every file as it was."""
    monkeypatch.setattr("recoversat.files.storage.time.sleep", lambda _: None)
    monkeypatch.setattr("recoversat.pipeline.fit._run", lambda *_: pytest.fail("it was not refused"))

    def run(*more: object, out: Path = tmp_path / "out") -> str:
        files = ["--src", SAMPLE / "tatoeba.en", "--tgt", SAMPLE / "tatoeba.de", "--out", out, "--device", "cpu"]
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        said = []
        for options in (["--dry-run"], []):
            done = CliRunner().invoke(app, ["fit", *map(str, (*files, *more, *options))])
            assert isinstance(done.exception, UserError), done.output
            said.append(str(done.exception))
            assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        assert said[0] == said[1]
        return said[0]

    return run


def begun(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Path:
    """Let `fit` begin in a folder, and stop after it has claimed it."""
    with monkeypatch.context() as patch:
        patch.setattr("recoversat.pipeline.fit._run", lambda *_: None)
        files = ["--src", SAMPLE / "tatoeba.en", "--tgt", SAMPLE / "tatoeba.de", "--out", folder, "--device", "cpu"]
        done = CliRunner().invoke(app, ["fit", *map(str, files), *more], catch_exceptions=False)
        assert done.exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["--set", "model.kind=nat", "--segments", "1"], "`fit` trains a RecoverSAT and its autoregressive teacher"),
        (["--teacher-set", "train.segments=5"], "a teacher writes one segment"),
        (["--teacher-set", "model.d_model=64"], "so both need the same"),
        (["--set", "train.segments=20"], "K = 20 but model.max_segments is 10"),
        (["--set", "decode.beam=1000"], "decode.beam: Input should be less than or equal to 100"),
        (["--set", "train.objective=nowhere:loss"], "there is no module nowhere"),
        (["--test-src", "no.en", "--test-tgt", "no.de"], "no.en: no such file"),
        (["--device", "cuda:99"], "cuda"),
    ],
)
def test_settings_that_cannot_work(refused: Refused, settings: list[str], message: str) -> None:
    assert message in refused(*settings)


def test_validation_and_test_text_is_read_to_its_end(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "v.en").write_bytes(b"One.\nTwo.\n")
    (tmp_path / "v.de").write_bytes(b"Eins.\nZw\xffei.\n")
    files = ["--valid-src", tmp_path / "v.en", "--valid-tgt", tmp_path / "v.de"]
    assert "v.de, line 2: not UTF-8" in refused(*files)
    (tmp_path / "v.de").write_bytes(b"Eins.\n")
    assert "v.en has more lines than" in refused(*files)
    for name in ("v.en", "v.de"):
        (tmp_path / name).write_bytes(b"")
    assert "v.en: no pair of sentences in it" in refused(*files)
    test = ["--test-src", tmp_path / "v.en", "--test-tgt", tmp_path / "v.de"]
    assert "v.en, line 1: the file is empty" in refused(*test)
    (tmp_path / "v.en").write_text("One.\n\n")
    (tmp_path / "v.de").write_text("Eins.\nZwei.\n")
    both = ["--set", "data.both_directions=true"]
    assert "v.en, line 2: the reference is missing" in refused(*test, *both)


def test_folders_that_are_not_its_own(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    assert "file is a file; choose a folder" in refused(out=tmp_path / "file")
    assert "file is a file; choose a folder" in refused(out=tmp_path / "file" / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    assert "exists and was not made by `fit`" in refused(out=tmp_path / "other")
    assert "it is left alone" in refused("--force", out=tmp_path / "other")
    folder = begun(tmp_path / "begun", monkeypatch)
    assert "student train.seed: 1 -> 5" in refused("--set", "train.seed=5", out=folder)
    assert "add --set train.schedule_steps" in refused("--set", "train.steps=50000", out=folder)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # root may write anywhere
    assert "you may not write there" in refused(out=tmp_path / "new")


def test_another_fit_at_work_is_noticed(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begun(tmp_path / "out", monkeypatch)
    monkeypatch.setattr("recoversat.files.storage.time.monotonic", iter(range(0, 10**6, 100)).__next__)
    with held(folder, "unused"):
        assert "another `fit` is at work here" in refused(out=folder)


def test_a_disk_without_room_for_the_checkpoints(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(free: int) -> Any:
        return lambda _: type("usage", (), {"free": free})

    monkeypatch.setattr("shutil.disk_usage", usage(10_000_000))
    few = refused()
    assert "GB are free; make room, or keep fewer: --set train.keep_checkpoints=1" in few
    needed = float(few.partition("student need ")[2].partition(" GB")[0])
    larger = refused("--preset", "wmt14")
    assert float(larger.partition("student need ")[2].partition(" GB")[0]) > 5 * needed
    monkeypatch.setattr("shutil.disk_usage", usage(10**12))
    begun(tmp_path / "out", monkeypatch)  # there is room


def test_what_can_work_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ["--src", SAMPLE / "tatoeba.en", "--tgt", SAMPLE / "tatoeba.de", "--out", tmp_path / "out"]
    done = CliRunner().invoke(app, ["fit", *map(str, files), "--device", "cpu", "--dry-run"], catch_exceptions=False)
    assert done.exit_code == 0
    assert not (tmp_path / "out").exists()
    folder = begun(tmp_path / "begun", monkeypatch)
    again = ["fit", *map(str, files[:-1]), str(folder), "--device", "cpu", "--dry-run"]
    assert CliRunner().invoke(app, again, catch_exceptions=False).exit_code == 0
