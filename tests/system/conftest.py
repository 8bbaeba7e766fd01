"""The real command, run as a user would, and a toy task it can learn in seconds."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system import forking

Run = Callable[..., subprocess.CompletedProcess[str]]

TOY = """
preset: small
data: {vocab_size: 100, tokenizer: bpe}
model: {d_model: 64, d_hidden: 128, n_heads: 2, encoder_layers: 2, decoder_layers: 2, dropout: 0.0, max_segments: 4}
train: {segments: 4, batch_tokens: 1024, learning_rate: 3.0e-3, warmup: 100, label_smoothing: 0.0, tensorboard: false}
"""


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """Programs inherit that Ctrl-C is ignored, where the tests themselves were started in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def recoversat() -> Run:
    """Run `recoversat ...`; fails with its output unless told that an error is expected.

    Who asks for more than a folder gets a process from the very beginning, others one that has imported torch.
    """

    def run(
        *arguments: object, expect: int = 0, stdin: str | None = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "recoversat", *map(str, arguments)]
        if more.keys() - {"cwd"}:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, encoding="utf-8", check=False, **more
            )
        else:
            done = forking.run(command[3:], stdin, **more)
        assert done.returncode == expect, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    return run


def write_digits(folder: Path, name: str, n: int, seed: int) -> None:
    """Lines such as `reverse 3 1 4` with their answer `4 1 3`; half of them are `copy`."""
    rng = random.Random(seed)
    with open(folder / f"{name}.src", "w") as src, open(folder / f"{name}.tgt", "w") as tgt:
        for _ in range(n):
            digits = [str(rng.randrange(10)) for _ in range(rng.randint(4, 10))]
            task = rng.choice(["copy", "reverse"])
            src.write(" ".join([task, *digits]) + "\n")
            tgt.write(" ".join(digits if task == "copy" else reversed(digits)) + "\n")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory, recoversat: Run) -> Path:
    """A folder with a toy config and a prepared toy corpus."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.yaml").write_text(TOY)
    write_digits(folder, "train", 6000, seed=1)
    write_digits(folder, "valid", 100, seed=2)
    write_digits(folder, "test", 100, seed=3)
    files = ["--src", folder / "train.src", "--tgt", folder / "train.tgt"]
    valid = ["--valid-src", folder / "valid.src", "--valid-tgt", folder / "valid.tgt"]
    recoversat("prepare", *files, *valid, "--out", folder / "corpus", "--config", folder / "toy.yaml")
    return folder


@pytest.fixture(scope="session")
def one_thread() -> dict[str, str]:
    """An environment in which sums are added in one order."""
    return os.environ | forking.ONE_THREAD
