"""Are the fused kernels right on this machine? A small comparison before they are trusted."""

import torch
from torch import Tensor

from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import SegmentState
from recoversat.engines.cuda.weights import Weights
from recoversat.vocab import BOS, DEL, N_SPECIAL

_BATCH, _SEGMENTS, _STEPS, _ROOM = 3, 4, 2, 64


def check_ops(fused: Ops, plain: Ops, weights: Weights) -> None:
    """Raise an error where fused operations differ from plain ones, on random numbers in the model's sizes."""
    _check_add_norm(fused, plain, weights)
    _check_choose(fused, plain, weights)


def _check_add_norm(fused: Ops, plain: Ops, weights: Weights) -> None:
    sizes, n_rows = weights.sizes, _BATCH * _SEGMENTS
    x, y = _random(n_rows, sizes.d_model, weights), _random(_SEGMENTS, sizes.d_model, weights)
    x[:, sizes.d_true :], y[:, sizes.d_true :] = 0, 0
    mine, theirs = x.clone(), x.clone()
    tolerance = 1e-4 if weights.dtype == torch.float32 else 2e-2
    for more in (y, x.clone()):  # fewer rows than x, and as many
        fused_normed = fused.add_norm(mine, more, weights.decoder_norm)
        plain_normed = plain.add_norm(theirs, more, weights.decoder_norm)
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(fused_normed, plain_normed, rtol=tolerance, atol=tolerance)


def _check_choose(fused: Ops, plain: Ops, weights: Weights) -> None:
    mine, theirs = _state(weights), _state(weights)
    for _ in range(_STEPS):
        logits = _random(_BATCH * _SEGMENTS, weights.sizes.vocab, weights) * 4 + weights.vocabulary.bias
        rows = torch.arange(len(logits), device=weights.device)
        logits[rows, N_SPECIAL + rows * 5 % (weights.sizes.vocab_true - N_SPECIAL)] += 50  # no ties
        logits[::3, DEL] += 90  # where it may be chosen
        fused.choose(logits.clone(), mine)
        plain.choose(logits.clone(), theirs)
    for name in ("active", "tokens", "steps", "rows", "n_active", "log_tokens"):
        if not torch.equal(getattr(mine, name), getattr(theirs, name)):
            raise RuntimeError(f"the fused choice of tokens gives other {name}")
    torch.testing.assert_close(mine.row_mask, theirs.row_mask)
    torch.testing.assert_close(mine.log_probs, theirs.log_probs, rtol=1e-3, atol=1e-3)


def _random(n_rows: int, width: int, weights: Weights) -> Tensor:
    generator = torch.Generator().manual_seed(n_rows)
    return torch.randn(n_rows, width, generator=generator).to(weights.device, weights.dtype)


def _state(weights: Weights) -> SegmentState:
    n_rows, device = _BATCH * _SEGMENTS, weights.device

    def integers(*shape: int, value: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.full(shape, value, dtype=dtype, device=device)

    single = integers(n_rows)
    single[:_SEGMENTS] = 1
    limits = integers(n_rows, value=_STEPS + 1)
    limits[-_SEGMENTS:] = 1
    mask = torch.full((_BATCH, _ROOM + 16), -torch.inf, dtype=weights.dtype, device=device)
    return SegmentState(
        single,
        limits,
        integers(n_rows, value=1, dtype=torch.int32),
        integers(n_rows, value=BOS),
        integers(n_rows),
        torch.arange(_SEGMENTS, device=device),
        integers(_STEPS, dtype=torch.int32),
        mask,
        integers(_STEPS, 2, n_rows, dtype=torch.int32),
        _SEGMENTS,
    )
