"""A loss in which rows read what the model itself has written: training on its own words, not on gold prefixes alone.

    PYTHONPATH=recipes recoversat train CORPUS --out RUN --set train.objective=own_words:own_words

A first pass, which learns nothing, writes at every row; a second one reads a share of those tokens in place of the
target's and is trained as usual. Labels, steps and segments stay, so that a row learns what belongs to its place even
after a word that should not stand before it, of its own segment or of a neighbour. What is not trained (the tokens of a
pseudo repetition) is read as it is, and so is what ends a segment.
"""

import os
from dataclasses import replace

import torch
from torch import Tensor

from recoversat.data.batching import Batch
from recoversat.model.build import Model
from recoversat.model.transformer import Transformer
from recoversat.training.loss import Loss, smoothed_cross_entropy
from recoversat.training.objective import hidden_rows
from recoversat.vocab import BOS, PAD, TERMINATORS, UNK

SHARE = float(os.environ.get("OWN_WORDS", "0.3"))  # of the tokens that rows read
CHUNK = 1024  # rows whose logits exist at the same time


def own_words(model: Model, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Sum the loss of a batch in which a share of the tokens that rows read are the model's own."""
    assert isinstance(model, Transformer), "only models of kind segments write in segments"
    swapped = replace(batch, tokens=with_own_words(batch, written(model, batch), SHARE))
    return smoothed_cross_entropy(hidden_rows(model, swapped), model.embedding.weight, batch.labels, smoothing, fused)


def with_own_words(batch: Batch, written: Tensor, share: float) -> Tensor:
    """Return the tokens that rows read: at random, what was written in the row before, which is the one it follows.

    The rows of a segment lie one behind the other, the first of them reads BOS.
    """
    before, label = written.roll(1, dims=1), batch.labels.roll(1, dims=1)
    ends = torch.tensor([*TERMINATORS, PAD], device=before.device)
    follows = (batch.steps > 0) & (batch.sentence > 0) & (label != PAD) & ~torch.isin(before, ends)
    drawn = torch.rand(before.shape, device=before.device) < share
    return torch.where(follows & drawn, before, batch.tokens)


@torch.no_grad()
def written(model: Transformer, batch: Batch) -> Tensor:
    """Return the likeliest token of every row (B, N), without dropout."""
    was_training = model.training
    model.eval()
    rows = hidden_rows(model, batch).flatten(0, 1)
    never = torch.tensor([PAD, BOS, UNK], device=rows.device)
    best = [model.logits(chunk).index_fill(-1, never, -torch.inf).argmax(-1) for chunk in rows.split(CHUNK)]
    model.train(was_training)
    return torch.cat(best).view_as(batch.labels)
