"""Matrices of the layers move by Muon, all else by AdamW; a training goes on with it as if it had not been stopped."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from recoversat.config import parse_config
from recoversat.data.corpus import Corpus
from recoversat.errors import UserError
from recoversat.files.model_folder import checkpoint_folders
from recoversat.model.transformer import Transformer
from recoversat.model.weights import read_weights
from recoversat.training.loop import train
from recoversat.training.muon import Muon, orthogonal
from tests.unit.training.tiny import settings

RATE, DECAY = 0.01, 0.1
ADAM = {"lr": RATE, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": DECAY}


def by_the_book(matrix: Tensor) -> Tensor:
    """Return the orthogonal matrix that Newton-Schulz approaches."""
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(1)
    config = parse_config(settings()).model.model_copy(update={"vocab_size": 30})
    model = Transformer(config)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def moves_of(model: Transformer, steps: int = 1) -> dict[str, Tensor]:
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = Muon(model, **ADAM)
    for _ in range(steps):
        optimizer.step()
    return {
        name: parameter.detach() - before[name] * (1 - RATE * DECAY) for name, parameter in model.named_parameters()
    }


def test_what_is_no_matrix_of_a_layer_moves_as_with_adam(model: Transformer) -> None:
    moves = moves_of(model)
    matrices = {name for name in moves if ".layers." in name and name.endswith("weight") and "norm" not in name}
    assert len(matrices) == 4 + 7  # of an encoder and a decoder layer
    for name in moves.keys() - matrices:
        assert moves[name].abs().flatten().tolist() == pytest.approx([RATE] * moves[name].numel(), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "parts"),
    [("encoder.layers.0.feed_forward.inner.weight", 1), ("decoder.layers.0.self_attention.qkv.weight", 3),
     ("decoder.layers.0.cross_attention.key_value.weight", 2)],
)  # fmt: skip
def test_each_matrix_of_a_projection_moves_by_an_orthogonal_one(model: Transformer, name: str, parts: int) -> None:
    gradient = dict(model.named_parameters())[name].grad
    assert gradient is not None
    wanted = torch.cat([by_the_book(part) for part in gradient.chunk(parts)])
    move = moves_of(model)[name] / (-RATE * 0.2 * max(gradient.shape[0] // parts, gradient.shape[1]) ** 0.5)
    cosine = torch.nn.functional.cosine_similarity(move.flatten(), wanted.flatten(), dim=0)
    assert cosine > 0.97  # singular values are near 1 only
    together = torch.nn.functional.cosine_similarity(move.flatten(), by_the_book(gradient).flatten(), dim=0)
    assert parts == 1 or together < cosine - 0.02


def test_momentum_looks_ahead(model: Transformer) -> None:
    name = "encoder.layers.0.feed_forward.outer.weight"
    parameter = dict(model.named_parameters())[name]
    first, second = torch.randn_like(parameter), torch.randn_like(parameter)
    optimizer = Muon(model, **ADAM | {"weight_decay": 0.0})
    parameter.grad = first
    optimizer.step()
    before = parameter.detach().clone()
    parameter.grad = second
    optimizer.step()
    momentum = 0.05 * (0.95 * first + second)
    wanted = orthogonal((0.05 * second + 0.95 * momentum)[None])[0] * (-RATE * 0.2 * 16**0.5)
    assert torch.allclose(parameter.detach() - before, wanted, atol=1e-6)


def test_matrices_are_made_orthogonal_one_by_one() -> None:
    many = torch.randn(3, 6, 20, generator=torch.Generator().manual_seed(2))
    together = orthogonal(many)
    for one, made in zip(many, together, strict=True):
        assert torch.allclose(orthogonal(1000 * one[None])[0], made, atol=1e-4)
    assert torch.allclose(orthogonal(many.mT).mT, together, atol=1e-5)
    assert bool(orthogonal(torch.zeros(1, 3, 3)).isfinite().all())


def test_a_training_with_muon_goes_on_exactly(corpus: Corpus, tmp_path: Path) -> None:
    config = settings(steps=12, save_every=4, keep_checkpoints=3, optimizer="muon", weight_decay=0.1)
    whole, halted = tmp_path / "whole", tmp_path / "halted"
    train(parse_config(config), corpus, whole, device="cpu", quiet=True)
    train(parse_config(config), corpus, halted, device="cpu", quiet=True)
    newest = checkpoint_folders(halted)[-1]
    (newest / "state.json").write_text("")  # damaged, so that the one before is gone on from
    train(parse_config(config), corpus, halted, device="cpu", quiet=True)
    ours, theirs = read_weights(newest), read_weights(whole / "checkpoints" / newest.name)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    with pytest.raises(UserError):
        train(parse_config(config | {"train": config["train"] | {"optimizer": "adamw"}}), corpus, whole, device="cpu")
