# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels of `packed.py`: attention that never looks at a key of another sentence, and its gradient.

A program has some queries (or keys) of one head of a line and meets the keys (or queries) of their sentences only.
B lines, N queries and M keys a line, H heads, E head. Scores are to the base 2, as is `log_sum` (B, H, N).
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _rows(ptr, at, inside, lane, stride, HEAD: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """Load rows `at` of one head (ROWS, BLOCK)."""
    kept = inside[:, None] & (lane < HEAD)[None, :] if HEAD < BLOCK else inside[:, None]
    return tl.load(ptr + at[:, None] * stride + lane[None, :], mask=kept, other=0.0)


@triton.jit
def _store(ptr, at, inside, lane, stride, value, HEAD: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    kept = inside[:, None] & (lane < HEAD)[None, :] if HEAD < BLOCK else inside[:, None]
    tl.store(ptr + at[:, None] * stride + lane[None, :], value.to(ptr.dtype.element_ty), mask=kept)


@triton.jit
def _forward_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, log_sum_ptr, first_ptr, end_ptr, step_ptr, key_step_ptr,
    query_line, query_head, query_row, key_line, key_head, key_row, value_line, value_head, value_row,
    n_queries, n_keys, scale,
    HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,  # noqa: N803
    STEPS: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    line, head = tl.program_id(1) // HEADS, tl.program_id(1) % HEADS
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    inside = at < n_queries
    first = tl.load(first_ptr + line * n_queries + at, mask=inside, other=n_keys)
    end = tl.load(end_ptr + line * n_queries + at, mask=inside, other=0)
    query = _rows(query_ptr + line * query_line + head * query_head, at, inside, lane, query_row, HEAD, BLOCK)
    if STEPS:
        step = tl.load(step_ptr + line * n_queries + at, mask=inside, other=0)
    best = tl.full((QUERIES,), -1.0e30, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, BLOCK), tl.float32)
    for start in range(tl.min(first, axis=0), tl.max(end, axis=0), KEYS):
        places = start + tl.arange(0, KEYS)
        there = places < n_keys
        keys = _rows(key_ptr + line * key_line + head * key_head, places, there, lane, key_row, HEAD, BLOCK)
        values = _rows(value_ptr + line * value_line + head * value_head, places, there, lane, value_row, HEAD, BLOCK)
        seen = (places[None, :] >= first[:, None]) & (places[None, :] < end[:, None])
        if STEPS:
            key_step = tl.load(key_step_ptr + line * n_keys + places, mask=there, other=0)
            seen = seen & (key_step[None, :] <= step[:, None])
        scores = tl.dot(query, tl.trans(keys), input_precision=PRECISION) * scale
        scores = tl.where(seen, scores, -1.0e30)  # finite, lest -inf meet -inf
        larger = tl.maximum(best, tl.max(scores, axis=1))
        shares = tl.where(seen, tl.exp2(scores - larger[:, None]), 0.0)
        shrunk = tl.exp2(best - larger)
        total = total * shrunk + tl.sum(shares, axis=1)
        mixed = mixed * shrunk[:, None] + tl.dot(shares.to(values.dtype), values, input_precision=PRECISION)
        best = larger
    total = tl.where(total > 0, total, 1.0)  # padding sees nothing and is given zeros
    log_sum = best + tl.log2(total)
    tl.store(log_sum_ptr + (line * HEADS + head) * n_queries + at, log_sum, mask=inside)
    out = out_ptr + (line * n_queries * HEADS + head) * HEAD
    _store(out, at, inside, lane, HEADS * HEAD, mixed / total[:, None], HEAD, BLOCK)


@triton.jit
def _query_gradient_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, grad_ptr, log_sum_ptr, share_ptr, grad_query_ptr,
    first_ptr, end_ptr, step_ptr, key_step_ptr,
    query_line, query_head, query_row, key_line, key_head, key_row, value_line, value_head, value_row,
    n_queries, n_keys, scale,
    HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,  # noqa: N803
    STEPS: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    line, head = tl.program_id(1) // HEADS, tl.program_id(1) % HEADS
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    inside = at < n_queries
    first = tl.load(first_ptr + line * n_queries + at, mask=inside, other=n_keys)
    end = tl.load(end_ptr + line * n_queries + at, mask=inside, other=0)
    query = _rows(query_ptr + line * query_line + head * query_head, at, inside, lane, query_row, HEAD, BLOCK)
    own = (line * n_queries * HEADS + head) * HEAD
    out = _rows(out_ptr + own, at, inside, lane, HEADS * HEAD, HEAD, BLOCK)
    grad = _rows(grad_ptr + own, at, inside, lane, HEADS * HEAD, HEAD, BLOCK)
    numbers = (line * HEADS + head) * n_queries + at
    log_sum = tl.load(log_sum_ptr + numbers, mask=inside, other=0.0)
    share = tl.sum(out.to(tl.float32) * grad.to(tl.float32), axis=1)
    tl.store(share_ptr + numbers, share, mask=inside)  # for the gradient of the keys
    if STEPS:
        step = tl.load(step_ptr + line * n_queries + at, mask=inside, other=0)
    grad_query = tl.zeros((QUERIES, BLOCK), tl.float32)
    for start in range(tl.min(first, axis=0), tl.max(end, axis=0), KEYS):
        places = start + tl.arange(0, KEYS)
        there = places < n_keys
        keys = _rows(key_ptr + line * key_line + head * key_head, places, there, lane, key_row, HEAD, BLOCK)
        values = _rows(value_ptr + line * value_line + head * value_head, places, there, lane, value_row, HEAD, BLOCK)
        seen = (places[None, :] >= first[:, None]) & (places[None, :] < end[:, None])
        if STEPS:
            key_step = tl.load(key_step_ptr + line * n_keys + places, mask=there, other=0)
            seen = seen & (key_step[None, :] <= step[:, None])
        scores = tl.dot(query, tl.trans(keys), input_precision=PRECISION) * scale
        weight = tl.exp2(tl.where(seen, scores - log_sum[:, None], float("-inf")))
        grad_weight = tl.dot(grad, tl.trans(values), input_precision=PRECISION)
        grad_score = (weight * (grad_weight - share[:, None])).to(keys.dtype)
        grad_query = tl.dot(grad_score, keys, grad_query, input_precision=PRECISION)
    _store(grad_query_ptr + own, at, inside, lane, HEADS * HEAD, grad_query * (scale / _LOG2_E), HEAD, BLOCK)


@triton.jit
def _key_gradient_kernel(
    query_ptr, key_ptr, value_ptr, grad_ptr, log_sum_ptr, share_ptr, grad_key_ptr, grad_value_ptr,
    first_ptr, end_ptr, step_ptr, key_step_ptr,
    query_line, query_head, query_row, key_line, key_head, key_row, value_line, value_head, value_row,
    n_queries, n_keys, scale,
    HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,  # noqa: N803
    STEPS: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    line, head = tl.program_id(1) // HEADS, tl.program_id(1) % HEADS
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    inside = at < n_keys
    first = tl.load(first_ptr + line * n_keys + at, mask=inside, other=n_queries)  # queries of a key's sentence
    end = tl.load(end_ptr + line * n_keys + at, mask=inside, other=0)
    keys = _rows(key_ptr + line * key_line + head * key_head, at, inside, lane, key_row, HEAD, BLOCK)
    values = _rows(value_ptr + line * value_line + head * value_head, at, inside, lane, value_row, HEAD, BLOCK)
    if STEPS:
        key_step = tl.load(key_step_ptr + line * n_keys + at, mask=inside, other=0)
    grad_keys = tl.zeros((KEYS, BLOCK), tl.float32)
    grad_values = tl.zeros((KEYS, BLOCK), tl.float32)
    for start in range(tl.min(first, axis=0), tl.max(end, axis=0), QUERIES):
        rows = start + tl.arange(0, QUERIES)
        there = rows < n_queries
        query = _rows(query_ptr + line * query_line + head * query_head, rows, there, lane, query_row, HEAD, BLOCK)
        grads = grad_ptr + (line * n_queries * HEADS + head) * HEAD
        grad = _rows(grads, rows, there, lane, HEADS * HEAD, HEAD, BLOCK)
        numbers = (line * HEADS + head) * n_queries + rows
        log_sum = tl.load(log_sum_ptr + numbers, mask=there, other=0.0)
        share = tl.load(share_ptr + numbers, mask=there, other=0.0)
        seen = (rows[None, :] >= first[:, None]) & (rows[None, :] < end[:, None])  # (KEYS, QUERIES)
        if STEPS:
            step = tl.load(step_ptr + line * n_queries + rows, mask=there, other=0)
            seen = seen & (key_step[:, None] <= step[None, :])
        scores = tl.dot(keys, tl.trans(query), input_precision=PRECISION) * scale
        weight = tl.exp2(tl.where(seen, scores - log_sum[None, :], float("-inf")))
        grad_values = tl.dot(weight.to(grad.dtype), grad, grad_values, input_precision=PRECISION)
        grad_weight = tl.dot(values, tl.trans(grad), input_precision=PRECISION)
        grad_score = (weight * (grad_weight - share[None, :])).to(query.dtype)
        grad_keys = tl.dot(grad_score, query, grad_keys, input_precision=PRECISION)
    own = (line * n_keys * HEADS + head) * HEAD
    _store(grad_key_ptr + own, at, inside, lane, HEADS * HEAD, grad_keys * (scale / _LOG2_E), HEAD, BLOCK)
    _store(grad_value_ptr + own, at, inside, lane, HEADS * HEAD, grad_values, HEAD, BLOCK)


class Tiles(NamedTuple):
    """How many queries and keys meet at a time, and how many warps work on them."""

    queries: int
    keys: int
    warps: int
    stages: int


FORWARD = QUERY_GRADIENT = KEY_GRADIENT = Tiles(32, 32, 1, 2)  # of eleven that were timed on an H200


def forward(
    query: Tensor, key: Tensor, value: Tensor, first: Tensor, end: Tensor, step: Tensor, key_step: Tensor,
    tiles: Tiles = FORWARD,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the mixed values (B, N, H, E) and the logarithm of each query's sum (B, H, N)."""
    batch, heads, n_queries, size = query.shape
    out = query.new_empty((batch, n_queries, heads, size))
    log_sum = query.new_empty((batch, heads, n_queries), dtype=torch.float32)
    _forward_kernel[(triton.cdiv(n_queries, tiles.queries), batch * heads)](
        query, key, value, out, log_sum, first, end, step, key_step,
        *_strides(query), *_strides(key), *_strides(value), n_queries, key.shape[2], size**-0.5 * _LOG2_E.value,
        **_constants(query, step, tiles),
    )  # fmt: skip
    return out, log_sum


def backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, log_sum: Tensor, first: Tensor, end: Tensor,
    key_first: Tensor, key_end: Tensor, step: Tensor, key_step: Tensor,
    tiles: tuple[Tiles, Tiles] = (QUERY_GRADIENT, KEY_GRADIENT),
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of queries (B, N, H, E), keys and values (B, M, H, E)."""
    batch, heads, n_queries, size = query.shape
    n_keys = key.shape[2]
    shapes = (*_strides(query), *_strides(key), *_strides(value), n_queries, n_keys, size**-0.5 * _LOG2_E.value)
    share, grad_query = torch.empty_like(log_sum), torch.empty_like(out)
    grad_key = key.new_empty((batch, n_keys, heads, size))
    grad_value = torch.empty_like(grad_key)
    for_queries, for_keys = tiles
    _query_gradient_kernel[(triton.cdiv(n_queries, for_queries.queries), batch * heads)](
        query, key, value, out, grad, log_sum, share, grad_query, first, end, step, key_step, *shapes,
        **_constants(query, step, for_queries),
    )  # fmt: skip
    _key_gradient_kernel[(triton.cdiv(n_keys, for_keys.keys), batch * heads)](
        query, key, value, grad, log_sum, share, grad_key, grad_value, key_first, key_end, step, key_step, *shapes,
        **_constants(query, step, for_keys),
    )  # fmt: skip
    return grad_query, grad_key, grad_value


def _strides(x: Tensor) -> tuple[int, int, int]:
    assert x.stride(3) == 1
    return x.stride(0), x.stride(1), x.stride(2)


def _constants(query: Tensor, step: Tensor, tiles: Tiles) -> dict[str, int | str | bool]:
    _, heads, _, size = query.shape
    return {
        "HEADS": heads, "HEAD": size, "BLOCK": max(16, triton.next_power_of_2(size)), "QUERIES": tiles.queries,
        "KEYS": tiles.keys, "STEPS": step.numel() > 0, "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
        "num_warps": tiles.warps, "num_stages": tiles.stages,
    }  # fmt: skip
