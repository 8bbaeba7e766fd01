"""A model that reads drafts learns which tokens should not be there; a run that was stopped learns the same."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from recoversat.config import Config, parse_config
from recoversat.data.corpus import Corpus, open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.engines.engine import Engine
from recoversat.engines.torch.engine import TorchEngine
from recoversat.model.transformer import Transformer
from recoversat.model.weights import load_model, read_weights
from recoversat.training.loop import train

WORDS = "abcdefghij"
CONFIG = {
    "data": {"tokenizer": "bpe"},
    "model": {"d_model": 32, "d_hidden": 64, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
    "train": {"segments": [1, 2], "delete_tokens": 0.7, "steps": 220, "batch_tokens": 300, "learning_rate": 0.01}
    | {"warmup": 30, "label_smoothing": 0.0, "workers": 0, "tensorboard": False, "precision": "fp32"},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Copy words in the order of the alphabet."""
    folder, rng = tmp_path_factory.mktemp("deletion"), random.Random(1)
    lines = "".join(" ".join(sorted(rng.sample(WORDS, rng.randint(3, 7)))) + "\n" for _ in range(600))
    for name in ("src", "tgt"):
        (folder / name).write_text(lines)
    settings = parse_config({"data": CONFIG["data"] | {"drop_duplicates": False}}).data
    prepare(TextPairs(folder / "src", folder / "tgt"), folder / "corpus", settings, quiet=True)
    return open_corpus(folder / "corpus")


def config(**train: object) -> Config:
    return parse_config(CONFIG | {"train": CONFIG["train"] | train})


def engine_of(run: Path) -> Engine:
    model, _ = load_model(run)
    assert isinstance(model, Transformer)
    return TorchEngine(model, torch.device("cpu"))


def test_it_learns_to_delete_what_is_said_twice(corpus: Corpus, tmp_path: Path) -> None:
    train(config(), corpus, tmp_path / "run", quiet=True)
    engine, rng = engine_of(next((tmp_path / "run" / "checkpoints").iterdir())), random.Random(2)
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(100):
        source = corpus.tokenizer.encode([" ".join(sorted(rng.sample(WORDS, 6)))])[0]
        end = rng.randint(1, 6)
        draft = [*source[:end], source[end - 1], *source[end:]]
        (marks,) = engine.deletions([(source, draft)])
        for place, mark in enumerate(marks):
            found[place == end].append(mark)
    # over 40 seeds at least 0.76, and at most 0.02
    assert np.mean(found[True]) > 0.5
    assert np.mean(found[False]) < 0.1


def test_a_run_that_was_stopped_reads_the_same_drafts(corpus: Corpus, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(config(steps=6, schedule_steps=6), corpus, whole, quiet=True)
    for steps in (3, 6):
        train(config(steps=steps, schedule_steps=6), corpus, parts, quiet=True)
    one, other = (read_weights(run / "checkpoints" / "step-00000006") for run in (whole, parts))
    assert all(torch.equal(one[name], other[name]) for name in one)
