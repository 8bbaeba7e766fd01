"""A checkpoint that a disk has damaged costs the updates since the one before, not the run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recoversat.config import parse_config
from recoversat.data.corpus import Corpus
from recoversat.errors import UserError
from recoversat.files.model_folder import checkpoint_folders
from recoversat.model.weights import read_weights
from recoversat.pipeline.fit import _whole_checkpoints
from recoversat.training.checkpoint import TrainingState
from recoversat.training.loop import train
from tests.unit.training.tiny import settings

CONFIG = settings(steps=12, save_every=4, keep_checkpoints=3, log_every=2)
Run = Callable[[Path], TrainingState]


@pytest.fixture
def run(corpus: Corpus) -> Run:
    return lambda folder: train(parse_config(CONFIG), corpus, folder, device="cpu", quiet=True)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = read_weights(one), read_weights(other)
    return all(bool((ours[name] == theirs[name]).all()) for name in theirs)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_newest_checkpoint_is_trained_again_from_the_one_before(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run(tmp_path / "whole")
    run(tmp_path / "hurt")
    log = (tmp_path / "hurt" / "log.jsonl").read_text()
    newest = checkpoint_folders(tmp_path / "hurt")[-1]
    truncate(newest / name)
    assert run(tmp_path / "hurt").update == 12
    told = capsys.readouterr().err
    assert f"step-00000012/{name}: damaged" in told
    assert "put aside as damaged-step-00000012, the checkpoint before it is used" in told
    assert same_weights(newest, tmp_path / "whole" / "checkpoints" / newest.name)
    assert [path.name for path in checkpoint_folders(tmp_path / "hurt")] == [
        f"step-000000{n}" for n in ("04", "08", "12")
    ]
    again = (tmp_path / "hurt" / "log.jsonl").read_text()
    assert log.count("loss") == again.count("loss") == 12
    assert run(tmp_path / "hurt").update == 12
    assert not capsys.readouterr().err


def test_a_file_that_is_gone_is_damage_too(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path)
    (checkpoint_folders(tmp_path)[-1] / "optimizer.safetensors").unlink()
    assert run(tmp_path).update == 12
    assert "no weights here (optimizer.safetensors is missing)" in capsys.readouterr().err


def test_where_none_can_be_read_nothing_starts_over_unasked(run: Run, tmp_path: Path) -> None:
    run(tmp_path)
    for folder in checkpoint_folders(tmp_path):
        truncate(folder / "model.safetensors")
    with pytest.raises(UserError, match="no checkpoint can be read; --force starts over"):
        run(tmp_path)
    assert len(checkpoint_folders(tmp_path)) == 3


def test_fit_averages_what_can_be_read_and_trains_a_damaged_end_again(run: Run, tmp_path: Path) -> None:
    run(tmp_path)
    first, second, third = checkpoint_folders(tmp_path)
    truncate(first / "model.safetensors")
    assert _whole_checkpoints(tmp_path) == [second, third]
    truncate(third / "model.safetensors")
    with pytest.raises(UserError, match="the same command trains on from the one before"):
        _whole_checkpoints(tmp_path)
    assert checkpoint_folders(tmp_path) == [second]  # so `fit` sees that its training is not done
    assert run(tmp_path).update == 12
    assert _whole_checkpoints(tmp_path) == [second, third]


def test_killed_while_it_saves_a_run_goes_on_from_the_checkpoint_before(
    run: Run, corpus: Corpus, tmp_path: Path
) -> None:
    """The process is gone when half of the optimizer's state of update 8 is on the disk."""
    run(tmp_path / "whole")
    script = f"""
import os, signal
from pathlib import Path
from recoversat.config import parse_config
from recoversat.data.corpus import open_corpus
from recoversat.training import checkpoint
from recoversat.training.loop import train

save, calls = checkpoint.save_weights, []

def save_half(weights, folder, name="model.safetensors"):
    save(weights, folder, name)
    calls.append(name)
    if len(calls) == 4:
        os.truncate(folder / name, 1000)
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.save_weights = save_half
corpus, run = open_corpus(Path({str(corpus.folder)!r})), Path({str(tmp_path / "run")!r})
train(parse_config({CONFIG!r}), corpus, run, device="cpu")
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in checkpoint_folders(tmp_path / "run")] == ["step-00000004"]
    assert list((tmp_path / "run" / "checkpoints").glob(".*.partial"))
    assert run(tmp_path / "run").update == 12
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))
    last = "checkpoints/step-00000012"
    assert same_weights(tmp_path / "run" / last, tmp_path / "whole" / last)
