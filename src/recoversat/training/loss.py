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

GPU_CHUNK, _CPU_CHUNK = 8192, 1024  # rows whose logits exist at the same time


@dataclass(frozen=True)
class Loss:
    """Sums over labelled rows; divide by `n_labels` for means."""

    smoothed: Tensor  # what is minimised
    nll: Tensor  # plain negative log-likelihood, for the log
    n_labels: Tensor


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, fused: bool = False, bias: Tensor | None = None
) -> Loss:
    """Sum the loss over rows whose label is not PAD; `weight` is the output embedding (V, D), `bias` is (V,).

    `fused` makes two compiled passes over the logits, which is faster on a GPU.
    """
    flat, targets = hidden.flatten(0, -2), labels.flatten()
    if bias is not None:  # one more place of the product, which is padded anyway
        flat, weight = torch.cat([flat, torch.ones_like(flat[:, :1])], 1), torch.cat([weight, bias[:, None]], 1)
    smoothed, nll = cast(Any, _ChunkedCrossEntropy).apply(flat, weight, targets, smoothing, fused)
    return Loss(smoothed, nll, (targets != PAD).sum())


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, fused: bool
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        size = GPU_CHUNK if device == "cuda" else _CPU_CHUNK
        chunk_loss = _fused_loss() if fused else _chunk_loss
        spread = hidden.new_full((), smoothing, dtype=torch.float32)  # a number in compiled code would outlive the run
        with torch.autocast(device, enabled=False):
            rows, table = pad_last(hidden.to(dtype)), pad_last(weight.to(dtype))
            grad_hidden = torch.empty_like(rows)
            grad_weight = torch.zeros_like(table, dtype=weight.dtype)
            smoothed = nll = hidden.new_zeros((), dtype=torch.float32)
            for chunk in (slice(at, at + size) for at in range(0, len(rows), size)):
                logits = rows[chunk] @ table.T  # (chunk, V)
                chunk_smoothed, chunk_nll, grad = chunk_loss(logits, labels[chunk], spread)
                smoothed, nll = smoothed + chunk_smoothed, nll + chunk_nll
                grad_hidden[chunk] = grad @ table
                grad_weight += grad.T @ rows[chunk]
        d_model = hidden.shape[-1]
        ctx.save_for_backward(grad_hidden[:, :d_model].to(hidden.dtype), grad_weight[:, :d_model])
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grads[0], grad_weight * grads[0], None, None, None


def _chunk_loss(logits: Tensor, labels: Tensor, smoothing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return smoothed loss, nll and the gradient of the first by the logits, in few passes over them.

    With s = smoothing and n = log sum exp(logits): loss = n - (1 - s) logit[label] - s mean(logits).
    """
    real = labels != PAD
    log_probs = logits.float().log_softmax(dim=-1)
    nll = -log_probs.gather(1, labels[:, None])[:, 0]
    smoothed = (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1)
    grad = log_probs.exp_().sub_(smoothing / log_probs.shape[-1])
    grad.scatter_add_(1, labels[:, None], (smoothing - 1).expand_as(nll)[:, None])
    grad[~real] = 0
    return torch.where(real, smoothed, 0.0).sum(), torch.where(real, nll, 0.0).sum(), grad.to(logits.dtype)


def _chunk_loss_to_fuse(logits: Tensor, labels: Tensor, smoothing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same, written so that a compiler makes two passes of it.

    `smoothing` is a tensor: torch keeps compiled code on disk, and code compiled with one run's number in it has
    been given to runs with another.
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


@lru_cache(maxsize=1)
def _fused_loss() -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    return torch.compile(_chunk_loss_to_fuse, dynamic=True)
