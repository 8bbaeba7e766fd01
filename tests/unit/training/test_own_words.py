"""recipes/own_words.py: rows read what the model itself wrote, where it stands for what the target says."""

import importlib
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.config import parse_config
from recoversat.data.batching import Batch, Batches
from recoversat.model.build import build_model
from recoversat.training.objective import batch_loss
from recoversat.vocab import BOS, N_SPECIAL, PAD, TERMINATORS
from tests.unit.training.tiny import settings, tiny_corpus

ROOT = Path(__file__).parents[3]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "recipes")
    return importlib.import_module("own_words")


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """Sentences in up to four segments, some of them pseudo repetitions."""
    corpus = tiny_corpus(tmp_path)
    config = parse_config(settings(segments=[1, 2, 4], batch_tokens=400, repeat_prob=0.5)).train
    [made] = Batches.of(corpus.train, config, corpus.tokenizer.word_ends)[0]
    return made.to("cpu")


def test_a_row_reads_what_was_written_in_the_row_before_it(recipe, batch: Batch) -> None:
    assert torch.equal(recipe.with_own_words(batch, batch.labels, share=1.0), batch.tokens)  # gold words change nothing
    other = torch.where(batch.labels >= N_SPECIAL, batch.labels + 1, N_SPECIAL)
    read = recipe.with_own_words(batch, other, share=1.0)
    swapped = read != batch.tokens
    assert torch.equal(read[swapped], other.roll(1, dims=1)[swapped])
    trained = batch.labels.roll(1, dims=1) != PAD
    assert torch.equal(swapped, (batch.steps > 0) & (batch.sentence > 0) & trained)
    assert not trained.all()
    assert (batch.tokens[~swapped] == BOS).any()
    assert torch.equal(recipe.with_own_words(batch, other, share=0.0), batch.tokens)


def test_what_ends_a_segment_is_not_read(recipe, batch: Batch) -> None:
    for end in TERMINATORS:
        assert torch.equal(recipe.with_own_words(batch, torch.full_like(batch.labels, end), 1.0), batch.tokens)


def test_what_is_written_is_the_likeliest_and_no_dropout_is_in_it(recipe, batch: Batch, tmp_path: Path) -> None:
    values = settings()
    values["model"] |= {"vocab_size": 400, "dropout": 0.9}
    model = build_model(parse_config(values).model).train()
    once, again = recipe.written(model, batch), recipe.written(model, batch)
    assert torch.equal(once, again)
    assert model.training
    assert once.shape == batch.labels.shape
    assert not torch.isin(once, torch.tensor([PAD, BOS])).any()


def test_with_no_word_of_its_own_the_loss_is_ours(recipe, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    values = settings()
    values["model"] |= {"vocab_size": 400, "dropout": 0.0}
    torch.manual_seed(1)
    model = build_model(parse_config(values).model)
    losses = {}
    for share in (0.0, 0.5):
        monkeypatch.setattr(recipe, "SHARE", share)
        losses[share] = recipe.own_words(model, batch, 0.1, False)
    ours = batch_loss(model, batch, 0.1, False)
    assert losses[0.0].smoothed.item() == pytest.approx(ours.smoothed.item(), rel=1e-6)
    assert losses[0.5].smoothed.item() != pytest.approx(ours.smoothed.item(), rel=1e-6)
    assert losses[0.5].n_labels == ours.n_labels


@pytest.mark.usefixtures("recipe")
def test_it_trains(tmp_path: Path) -> None:
    corpus = tiny_corpus(tmp_path)
    values = settings(steps=2, segments=3, objective="own_words:own_words")
    given = [f"{section}.{key}={value}" for section, part in values.items() for key, value in part.items()]
    words = [part for one in given for part in ("--set", one)]
    run = ["train", str(corpus.folder), "--out", str(tmp_path / "run"), "--device", "cpu", *words]
    assert CliRunner().invoke(app, run).exit_code == 0
    assert "objective" in json.loads((tmp_path / "run" / "run.json").read_text())
