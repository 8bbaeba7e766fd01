"""What the tests of models that write all at once share: small models, random pairs, and their batches."""

from collections.abc import Iterator

import numpy as np
import torch

from recoversat.config import Kind, ModelConfig, TrainConfig
from recoversat.data.batching import Batch, Batches
from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.model.nat import NatTransformer
from recoversat.vocab import N_SPECIAL

V = 25
CPU = torch.device("cpu")


def config_of(kind: Kind, encoder_layers: int = 1, **more: float) -> ModelConfig:
    settings = {"d_model": 32, "d_hidden": 64, "n_heads": 4, "decoder_layers": 2, "dropout": 0.0, "vocab_size": V}
    return ModelConfig.model_validate(settings | {"kind": kind, "encoder_layers": encoder_layers} | more)


def opinionated(config: ModelConfig, seed: int) -> NatTransformer:
    """Make a random model whose outputs depend strongly on their inputs."""
    torch.manual_seed(seed)
    model = NatTransformer(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(8.0)
    return model


def random_pairs(n: int, seed: int) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(seed)
    sides = rng.integers(1, 10, size=(2, n))
    src, tgt = ([rng.integers(N_SPECIAL, V, size=k).tolist() for k in side] for side in sides)
    return src, tgt


def packed(src: list[list[int]], tgt: list[list[int]]) -> Batch:
    """Take the real road of training: K = 1, all sentences in one update, packed into lines."""
    pairs = ParallelSentences(Sentences.of(src), Sentences.of(tgt))
    config = TrainConfig(segments=1, batch_tokens=sum(map(len, tgt)), steps=10)
    (batch,) = Batches.of(pairs, config, lambda ids: np.ones(len(ids), dtype=bool))[0]
    return batch


def one_by_one(src: list[list[int]], tgt: list[list[int]]) -> Iterator[Batch]:
    """Lay each sentence into a line of its own, written by hand."""
    for source, target in zip(src, tgt, strict=True):
        n_src, n_tgt = torch.arange(len(source))[None], torch.arange(len(target))[None]
        yield Batch(
            src_tokens=torch.tensor([source]), src_positions=n_src, src_sentence=torch.ones_like(n_src),
            tokens=torch.zeros_like(n_tgt), labels=torch.tensor([target]), steps=n_tgt,
            segments=torch.zeros_like(n_tgt), sentence=torch.ones_like(n_tgt), n_target_tokens=len(target),
        )  # fmt: skip
