"""Trainings so small that they take no time: sixty pairs, a model of one layer, a few updates."""

from pathlib import Path
from typing import Any

from recoversat.config import DataConfig
from recoversat.data.corpus import Corpus, open_corpus
from recoversat.data.prepare import TextPairs, prepare

SAMPLE = Path(__file__).parents[2] / "data"
DATA = {"vocab_size": 400}
MODEL = {"d_model": 16, "d_hidden": 16, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
TRAIN = {"batch_tokens": 64, "segments": 2, "workers": 0, "tensorboard": False}


def settings(**train: Any) -> dict[str, Any]:
    """Return a configuration as a dictionary."""
    return {"data": DATA, "model": MODEL, "train": TRAIN | train}


def tiny_corpus(folder: Path) -> Corpus:
    """Prepare the corpus, in a folder of its own."""
    for name in ("tatoeba.en", "tatoeba.de"):
        lines = (SAMPLE / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:60]), encoding="utf-8")
    pairs = TextPairs(folder / "tatoeba.en", folder / "tatoeba.de")
    prepare(pairs, folder / "corpus", DataConfig.model_validate(DATA), quiet=True)
    return open_corpus(folder / "corpus")
