"""The small operations between the products: plain torch, or fused Triton kernels where those work.

R rows, D model, V vocabulary.
"""

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.engines.cuda.state import SegmentState
from recoversat.engines.cuda.weights import Norm
from recoversat.vocab import DEL, PAD, TERMINATORS

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Ops(Protocol):
    """What is done between two products."""

    @property
    def name(self) -> str:
        """For descriptions: plain or fused."""

    def add_norm(self, x: Tensor, y: Tensor, norm: Norm) -> Tensor:
        """Add y (or y again and again, where it has fewer rows) to x in place; return the norm of the sum."""

    def choose(self, logits: Tensor, state: SegmentState) -> None:
        """Take the best token of each row, note it, and make the state that of the next step."""

    def judge(self, logits: Tensor, labels: Tensor, found: Tensor) -> None:
        """Note in `found` (3, R) the best token of each row, its log-probability, and that of the row's label (R,)."""


class PlainOps:
    """The operations in plain torch: what the fused kernels are checked against."""

    name = "plain"

    def add_norm(self, x: Tensor, y: Tensor, norm: Norm) -> Tensor:
        x.view(-1, *y.shape).add_(y)
        if norm.size == x.shape[-1]:
            return F.layer_norm(x, (norm.size,), norm.weight, norm.bias, norm.eps)
        weight, bias = norm.weight[: norm.size], norm.bias[: norm.size]
        return F.pad(
            F.layer_norm(x[..., : norm.size], (norm.size,), weight, bias, norm.eps), (0, x.shape[-1] - norm.size)
        )

    def choose(self, logits: Tensor, state: SegmentState) -> None:
        logits[:, DEL].masked_fill_(state.single > 0, -torch.inf)  # one segment has nothing to delete
        log_probs, tokens = logits.log_softmax(dim=-1, dtype=torch.float32).max(dim=-1)  # (R,)
        now = state.steps[:1]
        state.log_tokens.index_copy_(0, now, tokens.to(torch.int32)[None])
        state.log_probs.index_copy_(0, now, log_probs[None])
        ended = (tokens == TERMINATORS[0]) | (tokens == TERMINATORS[1])
        going = (state.active > 0) & ~ended & (state.steps + 1 < state.limits)
        state.n_active.index_copy_(0, now, going.sum(dtype=torch.int32)[None])
        state.active.copy_(going)
        state.tokens.copy_(tokens.masked_fill(~going, PAD))
        state.steps.add_(1)
        state.rows.add_(state.n_segments)
        hidden = torch.zeros_like(going, dtype=state.row_mask.dtype).masked_fill_(~going, -torch.inf)
        state.row_mask.index_copy_(1, state.rows, hidden.view(-1, state.n_segments))

    def judge(self, logits: Tensor, labels: Tensor, found: Tensor) -> None:
        log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)  # (R, V)
        best, tokens = log_probs.max(dim=-1)
        given = log_probs.gather(-1, labels[:, None])[:, 0]
        found.copy_(torch.stack([tokens.float(), best, given]))  # ids below 2 ** 24 are exact


def find_ops(device: torch.device, check: Callable[[Ops, Ops], None], wanted: bool | None) -> Ops:
    """Return fused operations where they are wanted (None: on a GPU) and `check` finds them equal to the plain ones.

    A GPU machine without Triton, or without the C compiler it needs, decodes with plain torch.
    """
    plain = PlainOps()

    def fused() -> Ops:
        from recoversat.engines.cuda.kernels import FusedOps

        found = FusedOps()
        check(found, plain)
        return found

    return where_they_work("fused GPU kernels", fused, device, wanted) or plain


def where_they_work(name: str, make: Callable[[], T | None], device: torch.device, wanted: bool | None) -> T | None:
    """Return kernels where they are wanted (None: on a GPU) and can be made; where that fails, say so and go on."""
    if wanted is False or (wanted is None and device.type != "cuda"):
        return None
    try:
        return make()
    except Exception as error:  # whatever a compiler may raise
        if wanted:
            raise
        _log.warning("%s do not work here, decoding goes on with plain ones: %s", name, error)
        return None
