"""Tiny trainings, one for each kind of model, and what comes of them.

`python -m tests.learning 40 [KIND...]` tries 40 seeds and prints the worst; see tests/unit/training/test_learning.py.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from recoversat.config import Kind, ModelConfig, TrainConfig
from recoversat.data.batching import Batches
from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.engines.engine import Options
from recoversat.engines.loading import engine_for
from recoversat.model.build import Model, build_model
from recoversat.training.objective import batch_loss
from recoversat.vocab import EOS, N_SPECIAL

V = 25
CPU = torch.device("cpu")
Ids = list[int]


@dataclass(frozen=True)
class Task:
    """What a tiny model learns: to make `target` of its sources, each of 3 to `longest` tokens."""

    target: Callable[[Ids], Ids]
    updates: int
    learning_rate: float
    sentences: int = 16
    longest: int = 6
    segments: tuple[int, ...] = (1,)
    encoder_layers: int = 1

    def pairs(self) -> tuple[list[Ids], list[Ids]]:
        rng = np.random.default_rng(8)
        lengths = rng.integers(3, self.longest + 1, size=self.sentences)
        sources = [rng.integers(N_SPECIAL, V, size=length).tolist() for length in lengths]
        return sources, [self.target(source) for source in sources]


TASKS: dict[Kind, Task] = {
    "segments": Task(lambda ids: ids[::-1], 240, 5e-3, segments=(2, 3)),
    "sat": Task(lambda ids: ids[::-1], 180, 5e-3, segments=(2, 3)),
    "nat": Task(lambda ids: ids[:-1], 100, 3e-3, sentences=48, longest=7, encoder_layers=2),  # the length too
    "cmlm": Task(lambda ids: ids[:-1], 250, 5e-3),
    "ctc": Task(lambda ids: [ids[0], *ids[:-1]], 160, 4e-3, sentences=24),  # a token twice, and one left out
}


@dataclass(frozen=True)
class Learnt:
    """What a training has come to: losses per label, and the share of tokens that are written where they belong."""

    loss_before: float
    loss: float
    loss_of_others: float  # with the targets of other sentences
    right: float


def learn(kind: Kind, seed: int = 0) -> Learnt:
    """Train a tiny model; the seed changes its weights, its masks and the order of its batches."""
    task = TASKS[kind]
    sources, targets = task.pairs()
    torch.manual_seed(seed)
    model = build_model(_config(kind, task))
    own = _batches(kind, sources, targets, seed)
    before = _loss(model, own)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.learning_rate)
    for update in range(task.updates):
        optimizer.zero_grad()
        _loss_of(model, own, update).backward()
        optimizer.step()
    others = _batches(kind, sources, [targets[-1], *targets[:-1]], seed)
    return Learnt(before, _loss(model, own), _loss(model, others), _right(model, sources, targets))


def _config(kind: Kind, task: Task) -> ModelConfig:
    sizes = {"d_model": 32, "d_hidden": 64, "n_heads": 4, "decoder_layers": 2, "dropout": 0.0, "vocab_size": V}
    own = {"upsample": 3, "glancing": 0.5} if kind == "ctc" else {"max_segments": max(task.segments)}
    return ModelConfig.model_validate(sizes | own | {"kind": kind, "encoder_layers": task.encoder_layers})


def _batches(kind: Kind, sources: list[Ids], targets: list[Ids], seed: int) -> Batches:
    """All sentences in every update."""
    config = TrainConfig(
        segments=list(TASKS[kind].segments), random_prob=0, repeat_prob=0, batch_tokens=sum(map(len, targets)),
        steps=1000, seed=seed,
    )  # fmt: skip
    pairs = ParallelSentences(Sentences.of(sources), Sentences.of(targets))
    return Batches.of(pairs, config, lambda ids: np.ones(len(ids), dtype=bool), dealt=kind == "sat")


def _loss_of(model: Model, batches: Batches, update: int) -> torch.Tensor:
    (batch,) = batches[update]
    loss = batch_loss(model, batch.to(CPU), 0.0, False)
    return loss.smoothed / loss.n_labels


def _loss(model: Model, batches: Batches) -> float:
    """Take the mean of some draws of masks and of K."""
    with torch.no_grad():
        return float(np.mean([float(_loss_of(model, batches, 900 + draw)) for draw in range(8)]))


def _right(model: Model, sources: list[Ids], targets: list[Ids]) -> float:
    engine, options = engine_for(model.eval(), CPU), Options(iterations=4, lengths=1)
    counts = np.full(len(sources), TASKS[model.config.kind].segments[-1])
    decoded = engine.decode(sources, counts, options)
    written = [[*(token for segment in one.segments for token in segment[:-1]), EOS] for one in decoded]
    pairs = zip(written, targets, strict=True)
    same = sum(a == b for ours, target in pairs for a, b in zip(ours, [*target, EOS], strict=False))
    return same / sum(len(target) + 1 for target in targets)


def main() -> None:
    """Print the worst of some seeds."""
    for kind in [kind for kind in TASKS if kind in sys.argv[2:]] or TASKS:
        found = [learn(kind, seed) for seed in range(int(sys.argv[1]))]
        losses, others = [one.loss for one in found], [one.loss_of_others for one in found]
        right, before = [one.right for one in found], [one.loss_before for one in found]
        print(
            f"{kind}: loss {min(before):.2f} -> {min(losses):.3f} to {max(losses):.3f}, of others at least "
            f"{min(others):.2f}, right at least {min(right):.1%}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
