"""Kill -9 at any moment, start again: not a bit of difference. Two processes: the same model as one."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from recoversat.files.model_folder import checkpoint_folders
from recoversat.model.weights import read_weights
from tests.system.conftest import Run
from tests.system.forking import Forked

SHORT = [
    "--set", "train.steps=40", "--set", "train.save_every=5", "--set", "train.validate_every=15",
    "--set", "train.batch_tokens=256", "--set", "model.dropout=0.1", "--set", "train.log_every=3",
]  # fmt: skip
WORKER = ["--set", "train.workers=1"]


def command(toy: Path, out: Path, *more: str) -> list[str]:
    base = ["train", str(toy / "corpus"), "--out", str(out), "--config", str(toy / "toy.yaml"), *SHORT, *more]
    return [sys.executable, "-m", "recoversat", *base]


def losses(run: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.fixture(scope="module")
def undisturbed(toy: Path, tmp_path_factory: pytest.TempPathFactory, recoversat: Run) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    recoversat(*command(toy, out)[3:])
    return out


def test_killed_and_continued_is_bit_identical(toy: Path, undisturbed: Path, tmp_path: Path) -> None:
    out, rng, kills = tmp_path / "run", random.Random(time.time_ns()), 0
    while True:
        with Forked(command(toy, out)[3:]) as process:
            reached = len(checkpoint_folders(out)) and max(int(c.name.split("-")[1]) for c in checkpoint_folders(out))
            while kills < 3 and process.poll() is None and not list(out.glob(f"checkpoints/step-{reached + 5:08d}")):
                time.sleep(0.005)
            if kills == 3 or process.poll() is not None:
                assert process.wait() == 0
                break
            # somewhere in the next updates, or in the middle of a checkpoint, but early enough for kills that follow
            end, latest = time.monotonic() + rng.random() * 0.15, f"checkpoints/step-{10 * kills + 15:08d}"
            while time.monotonic() < end and not (out / latest).exists():
                time.sleep(0.002)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills == 3
    assert losses(out) == losses(undisturbed)
    assert list(losses(out)) == list(range(1, 41))
    for name in ("best", "checkpoints/step-00000040"):
        ours, theirs = read_weights(out / name), read_weights(undisturbed / name)
        assert all((ours[key] == theirs[key]).all() for key in theirs)


def test_ctrl_c_saves_and_says_how_to_go_on(
    toy: Path, undisturbed: Path, tmp_path: Path, recoversat: Run, one_thread: dict[str, str]
) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(command(toy, out), env=one_thread, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not checkpoint_folders(out):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate()
    assert process.returncode == 2
    assert "the same command continues from there" in message
    assert "Traceback" not in message
    recoversat(*command(toy, out)[3:])
    assert losses(out) == losses(undisturbed)


@pytest.fixture
def with_workers(toy: Path, tmp_path: Path, one_thread: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A training that has a checkpoint, and a data worker, in a process group of its own."""
    arguments = command(toy, tmp_path / "run", *WORKER)
    with subprocess.Popen(
        arguments, env=one_thread, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while process.poll() is None and not checkpoint_folders(tmp_path / "run"):
            time.sleep(0.005)
        yield process
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_saves_too(
    toy: Path, undisturbed: Path, tmp_path: Path, recoversat: Run, with_workers: "subprocess.Popen[str]", number: int
) -> None:
    """As `timeout`, systemd, Slurm and terminals send it: data workers leave it to the training."""
    os.killpg(with_workers.pid, number)
    _, message = with_workers.communicate(timeout=60)
    assert with_workers.returncode == 2, message
    assert "the same command continues from there" in message
    assert "Traceback" not in message
    reached = int(message.split("stopped at update ")[1].split(";")[0])
    assert (tmp_path / f"run/checkpoints/step-{reached:08d}").is_dir()
    recoversat(*command(toy, tmp_path / "run", *WORKER)[3:])
    assert losses(tmp_path / "run") == losses(undisturbed)


def test_data_workers_end_with_a_training_that_is_killed(with_workers: "subprocess.Popen[str]") -> None:
    with_workers.kill()
    with_workers.communicate(timeout=20)  # until nobody is left who could write to its standard error
    assert with_workers.returncode == -signal.SIGKILL


def test_finished_runs_do_nothing_and_changed_settings_are_refused(
    toy: Path, undisturbed: Path, recoversat: Run
) -> None:
    before = (undisturbed / "log.jsonl").read_text()
    recoversat(*command(toy, undisturbed)[3:])
    assert (undisturbed / "log.jsonl").read_text() == before
    changed = recoversat(*command(toy, undisturbed, "--set", "train.repeat_prob=0.1")[3:], expect=2)
    assert "train.repeat_prob: 0.5 -> 0.1" in changed.stderr


def test_two_processes_train_the_same_model_as_one(
    toy: Path, tmp_path: Path, recoversat: Run, one_thread: dict[str, str]
) -> None:
    calm = ["--set", "model.dropout=0.0", "--set", "train.steps=12", "--set", "train.accumulate=1"]
    one, two = tmp_path / "one", tmp_path / "two"
    recoversat(*command(toy, one, *calm)[3:])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run([*torchrun, *command(toy, two, *calm)[1:]], check=True, capture_output=True, env=one_thread)
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
    ours, theirs = (read_weights(run / "checkpoints/step-00000012") for run in (two, one))
    assert all(bool((ours[key] - theirs[key]).abs().max() < 2e-3) for key in theirs)


def test_a_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(
    toy: Path, tmp_path: Path, recoversat: Run
) -> None:
    wild = ["--set", "train.learning_rate=1e30", "--set", "train.warmup=8", "--set", "train.save_every=1"]
    done = recoversat(*command(toy, tmp_path / "run", *wild)[3:], expect=2)
    assert "the loss is not finite at update" in done.stderr
    assert checkpoint_folders(tmp_path / "run")


def test_a_disk_that_is_full_loses_nothing_and_is_said(
    toy: Path, tmp_path: Path, recoversat: Run, one_thread: dict[str, str]
) -> None:
    """A file may not grow beyond 1 MB here: the weights fit, the optimizer's state does not."""
    out = tmp_path / "run"

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    done = subprocess.run(
        command(toy, out), env=one_thread, capture_output=True, text=True, check=False, preexec_fn=small_disk
    )
    assert done.returncode == 2, done.stderr
    assert "optimizer.safetensors could not be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not checkpoint_folders(out)
    assert not list((out / "checkpoints").iterdir())
    recoversat(*command(toy, out)[3:])
    assert list(losses(out)) == list(range(1, 41))


def test_a_run_has_one_training_at_a_time(toy: Path, tmp_path: Path, recoversat: Run) -> None:
    out, many = tmp_path / "run", ["--set", "train.steps=4000"]
    with Forked(command(toy, out, *many)[3:]) as first:
        try:
            while not checkpoint_folders(out):
                assert first.poll() is None
                time.sleep(0.05)
            with ThreadPoolExecutor(2) as pool:
                others = [
                    pool.submit(recoversat, *command(toy, out, *many, *more)[3:], expect=2)
                    for more in ([], ["--force"])
                ]
            assert all("another training is at work here" in other.result().stderr for other in others)
            assert first.poll() is None
        finally:
            os.kill(first.pid, signal.SIGINT)
            assert first.wait(60) == 2
    assert checkpoint_folders(out)
