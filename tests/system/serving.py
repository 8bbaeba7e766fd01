"""A tiny real model, and the real server around it as a process of its own."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from recoversat.config import parse_config
from recoversat.files.model_folder import write_description
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import DEL, EOS, SPECIAL_PIECES

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett")


# Factors that make a random model listen to its source: fresh weights hardly do.
LOUDER = {"cross_attention.query": 30, "cross_attention": 40, "encoder.": 4, "embedding.weight": 3}


def write_random_model(folder: Path) -> Path:
    """Write a model folder with random weights: it talks nonsense, but always the same for a sentence."""
    import torch

    from recoversat.model.transformer import Transformer
    from recoversat.model.weights import save_weights

    tokenizer = BpeTokenizer([*SPECIAL_PIECES, *WORDS])
    values = {
        "data": {"tokenizer": "bpe", "src_lang": "en", "tgt_lang": "de"},
        "model": {
            "d_model": 64, "d_hidden": 32, "n_heads": 8, "encoder_layers": 1, "decoder_layers": 1,
            "max_segments": 4, "vocab_size": tokenizer.size,
        },
        "train": {"segments": [1, 4]},
        "decode": {"extra_steps": 4},
    }  # fmt: skip
    config = parse_config(values)
    torch.manual_seed(1)
    weights = Transformer(config.model).state_dict()
    for name, weight in weights.items():
        if weight.dim() > 1:
            weight *= next((factor for part, factor in LOUDER.items() if part in name), 1)
    weights["embedding.weight"][[EOS, DEL]] = 0  # else it prefers to say nothing
    folder.mkdir()
    write_description(folder, config, tokenizer, {})
    save_weights(weights, folder)
    return folder


def write_exported_model(folder: Path) -> Path:
    """Write a random model for machines without torch: who serves it is ready sooner."""
    from recoversat.export.folder import export_folder

    model = write_random_model(folder.with_name("random"))
    export_folder(model, folder, ("fp32",), None, force=True)
    return folder


def sentence(number: int) -> str:
    """Write a sentence for a number; different numbers below a thousand have different ones."""
    return " ".join([*(WORDS[int(digit)] for digit in f"{number:03d}"), *WORDS[: number % 7]])


_RUN = "import runpy; runpy.run_module('recoversat', run_name='__main__')"


@dataclass
class Running:
    """A server that runs; `address` is where."""

    process: "subprocess.Popen[bytes]"
    address: str
    log: Path

    def post(self, path: str, timeout: float = 20, **fields: Any) -> Any:
        """Post JSON and read the answer."""
        request = urllib.request.Request(
            self.address + path, json.dumps(fields).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)

    def get(self, path: str) -> str:
        """Read a page."""
        with urllib.request.urlopen(self.address + path, timeout=20) as answer:
            return str(answer.read().decode())

    def workers(self) -> list[int]:
        """List the processes that serve."""
        children = psutil.Process(self.process.pid).children()
        return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]


@contextmanager
def serving(folder: Path, log: Path, *options: str, prelude: str = "") -> Iterator[Running]:
    """Start `recoversat serve` on a free port, wait until it is ready, and stop it in the end.

    What a `prelude` changes of our modules is changed in the process that answers; and it has a group of its own.
    """
    start = ["-c", f"{prelude}; {_RUN}"] if prelude else ["-m", "recoversat"]
    command = [sys.executable, *start, "serve", "--model", str(folder), "--port", "0", *options]
    with open(log, "wb") as stream:
        process = subprocess.Popen(command, stderr=stream, start_new_session=bool(prelude))
    try:
        yield Running(process, _address(process, log), log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(30)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"serves (http://\S+)", log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text()}")
