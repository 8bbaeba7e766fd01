"""Are the fused kernels right on this machine? A small comparison before they are trusted."""

import torch
from torch import Tensor

from recoversat.engines.cuda.layers import MOST_ROWS, ManyRows, StepLayers
from recoversat.engines.cuda.ops import Ops, PlainOps
from recoversat.engines.cuda.state import Memory, Rows, SegmentState
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


def check_few_rows(few: StepLayers, weights: Weights) -> None:
    """Raise an error where a layer of few rows differs from one in plain torch, from the first step to the third.

    More rows take more of a GPU's memory on the chip, so as many are tried as there may be.
    """
    for n_rows in (_SEGMENTS, MOST_ROWS):
        _check_rows(few, weights, n_rows, room=_ROOM * -(-(_STEPS + 1) * n_rows // _ROOM))


def _check_rows(few: StepLayers, weights: Weights, n_rows: int, room: int) -> None:
    many, sizes, n_layers = ManyRows(weights, PlainOps()), weights.sizes, len(weights.decoder)
    batch, length = 2, 2 * _ROOM // 3
    heads = (n_layers, 2, sizes.n_heads, sizes.head)
    memory = Memory(
        _random(batch * length, n_layers * 2 * sizes.heads, weights).view(batch, length, *heads),
        _mask(weights, batch, length),
    )
    memory.mask[1, length // 2 :] = -torch.inf
    tolerance = 1e-3 if weights.dtype == torch.float32 else 5e-2
    positions, mask = weights.row_positions(room, n_rows), _mask(weights, batch, 1, room) - torch.inf
    caches = [weights.embedding.new_zeros((batch, room, *heads[1:])) for _ in range(2)]
    for step in range(_STEPS + 1):
        newest = torch.arange(n_rows, device=weights.device) + step * n_rows
        mask[:, :, newest[step:]] = 0  # segments end one after the other
        tokens = (torch.arange(batch * n_rows, device=weights.device) + step) % sizes.vocab_true
        results = [
            _layer(layers, tokens, Rows([cache], positions, newest, mask), memory, weights)
            for layers, cache in zip((few, many), caches, strict=True)
        ]
        for mine, theirs in zip(*results, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(*caches, rtol=tolerance, atol=tolerance)


def _layer(layers: StepLayers, tokens: Tensor, rows: Rows, memory: Memory, weights: Weights) -> list[Tensor]:
    """Return what each part of the first decoder layer gives."""
    attention, cross, feed = weights.decoder[0]
    x, y = layers.embed(tokens, rows)
    x, first = layers.attend_rows(x, y, attention, rows, 0, len(rows.positions))
    x, second = layers.attend_source(x, layers.project(first, attention.output), cross, memory, 0)
    x, third = layers.feed(x, layers.project(second, cross.output), feed)
    return [first, second, third, x, layers.project(third, feed.output)]


def _mask(weights: Weights, *shape: int) -> Tensor:
    return torch.zeros(shape, dtype=weights.dtype, device=weights.device)


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
