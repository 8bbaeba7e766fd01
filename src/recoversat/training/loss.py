"""Label-smoothed cross-entropy straight from hidden states, without ever holding all logits.

R rows, D model, V vocabulary. With V = 40,000 the logits of an update would fill gigabytes and moving
them would cost more time than the layers; here they exist a chunk at a time, and the gradient is
computed while they do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from recoversat.model.aligned import pad_last
from recoversat.vocab import PAD

_CHUNK = 8192  # rows whose logits exist at the same time


@dataclass(frozen=True)
class Loss:
    """Sums over labelled rows; divide by `n_labels` for means."""

    smoothed: Tensor  # what is minimised
    nll: Tensor  # plain negative log-likelihood, for the log
    n_labels: Tensor


def smoothed_cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """Sum the loss over rows whose label is not PAD; `weight` is the output embedding (V, D)."""
    flat, targets = hidden.flatten(0, -2), labels.flatten()
    smoothed, nll = cast(Any, _ChunkedCrossEntropy).apply(flat, weight, targets, smoothing)
    return Loss(smoothed, nll, (targets != PAD).sum())


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        chunk_loss = _chunk_function(device)
        with torch.autocast(device, enabled=False):
            rows, table = pad_last(hidden.to(dtype)), pad_last(weight.to(dtype))
            grad_hidden = torch.empty_like(rows)
            grad_weight = torch.zeros_like(table, dtype=weight.dtype)
            smoothed = nll = hidden.new_zeros((), dtype=torch.float32)
            for at in range(0, len(rows), _CHUNK):
                piece = rows[at : at + _CHUNK]
                logits = piece @ table.T  # (chunk, V)
                piece_smoothed, piece_nll, grad = chunk_loss(logits, labels[at : at + _CHUNK], smoothing)
                smoothed, nll = smoothed + piece_smoothed, nll + piece_nll
                grad_hidden[at : at + _CHUNK] = grad @ table
                grad_weight += grad.T @ piece
        size = hidden.shape[-1]
        ctx.save_for_backward(grad_hidden[:, :size].to(hidden.dtype), grad_weight[:, :size])
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grads[0], grad_weight * grads[0], None, None


def _chunk_loss(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return smoothed loss, nll and the gradient of the first by the logits.

    With s = smoothing and n = log sum exp(logits): loss = n - (1 - s) logit[label] - s mean(logits).
    """
    scores = logits.float()
    real = labels != PAD
    norm = scores.logsumexp(dim=-1, keepdim=True)
    is_label = torch.arange(scores.shape[-1], device=scores.device)[None, :] == labels[:, None]
    nll = norm[:, 0] - torch.where(is_label, scores, 0.0).sum(dim=-1)
    spread = norm[:, 0] - scores.mean(dim=-1)
    smoothed = (1 - smoothing) * nll + smoothing * spread
    grad = (scores - norm).exp() - smoothing / scores.shape[-1] - torch.where(is_label, 1 - smoothing, 0.0)
    grad = torch.where(real[:, None], grad, 0.0).to(logits.dtype)
    return torch.where(real, smoothed, 0.0).sum(), torch.where(real, nll, 0.0).sum(), grad


@lru_cache(maxsize=2)
def _chunk_function(device: str) -> Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor]]:
    # on a GPU the passes over the logits are fused; on a CPU compiling would cost more than it saves
    return torch.compile(_chunk_loss, dynamic=True) if device == "cuda" else _chunk_loss
