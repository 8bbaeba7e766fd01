"""The loss of a CMLM (Ghazvininejad et al. 2019): some tokens of a target are masked, and predicted from the others.

How many is drawn for each sentence, from one to all of them. The length is predicted too, as NAT does.
"""

from dataclasses import replace

import torch
from torch import Tensor

from recoversat.data.batching import Batch
from recoversat.model.nat import NatTransformer
from recoversat.training.loss import Loss
from recoversat.training.nat import nat_loss, nat_rows
from recoversat.vocab import MASK


def cmlm_batch_loss(model: NatTransformer, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Predict the masked tokens and every length of a batch."""
    batch = nat_rows(batch)
    masked = draw_masks(batch.sentence)
    hidden, length_logits = model(
        batch.src_tokens, batch.src_positions, batch.src_sentence, batch.steps, batch.sentence,
        tokens=batch.labels.masked_fill(masked, MASK),
    )  # fmt: skip
    only_masked = replace(batch, labels=batch.labels * masked)  # PAD is 0, and not trained
    return nat_loss(hidden, length_logits, model.embedding.weight, only_masked, smoothing, fused)


def draw_masks(sentence: Tensor) -> Tensor:
    """Choose of each sentence of packed lines (B, N) 1 to all of its rows at random, each number equally often."""
    same = sentence[:, :, None] == sentence[:, None, :]  # (B, N, N)
    keys = torch.rand(sentence.shape, device=sentence.device)
    rank = (same & (keys[:, None, :] < keys[:, :, None])).sum(dim=-1)  # of a row in its sentence
    draws = torch.rand(len(sentence), sentence.shape[1] + 1, device=sentence.device).gather(1, sentence)
    return (rank < 1 + (draws * same.sum(dim=-1)).long()) & (sentence > 0)
