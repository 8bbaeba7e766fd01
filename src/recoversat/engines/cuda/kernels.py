# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels: a sum with its norm, and the choice of a token with everything that follows from it.

At batch 1 a step is a chain of kernels that each take a few microseconds, so fewer kernels is faster.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recoversat.engines.cuda.state import SegmentState
from recoversat.engines.cuda.weights import Norm
from recoversat.vocab import DEL, EOS, PAD

_WARPS = 8


@triton.jit(do_not_specialize=["y_rows"])
def _add_norm_kernel(
    x_ptr, y_ptr, weight_ptr, bias_ptr, out_ptr, y_rows, stride, size, eps, BLOCK: tl.constexpr  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    stored = columns < stride
    x_at = x_ptr + row * stride + columns
    x = tl.load(x_at, mask=stored, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + (row % y_rows) * stride + columns, mask=stored, other=0.0).to(tl.float32)
    total = (x + y).to(x_ptr.dtype.element_ty)  # rounded as a sum of its own would be
    tl.store(x_at, total, mask=stored)
    total = total.to(tl.float32)
    mean = tl.sum(total, axis=0) / size
    centred = tl.where(columns < size, total - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / size
    weight = tl.load(weight_ptr + columns, mask=stored, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=stored, other=0.0).to(tl.float32)
    normed = centred / tl.sqrt(variance + eps) * weight + bias
    tl.store(out_ptr + row * stride + columns, normed.to(out_ptr.dtype.element_ty), mask=stored)


@triton.jit
def settle(
    row, token, log_prob, step, limit, active, active_ptr, tokens_ptr, steps_ptr, rows_ptr, n_active_ptr, mask_ptr,
    log_ptr, log_probs_ptr, n_rows, n_segments, mask_stride,
    DELETE: tl.constexpr, END: tl.constexpr, EMPTY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Note the token that a row has chosen, and make its state that of the next step."""
    going = (active != 0) & (token != END) & (token != DELETE) & (step + 1 < limit)
    tl.store(log_ptr + step * 2 * n_rows + row, token)
    tl.store(log_probs_ptr + step * 2 * n_rows + n_rows + row, log_prob)
    tl.atomic_add(n_active_ptr + step, going.to(tl.int32), sem="relaxed")
    tl.store(active_ptr + row, going.to(tl.int32))
    tl.store(tokens_ptr + row, tl.where(going, token, EMPTY).to(tl.int64))
    tl.store(steps_ptr + row, step + 1)
    sentence, segment = row // n_segments, row % n_segments
    place = (step + 1) * n_segments + segment
    tl.store(rows_ptr + segment, place, mask=sentence == 0)
    hidden = tl.where(going, 0.0, float("-inf")).to(mask_ptr.dtype.element_ty)
    tl.store(mask_ptr + sentence * mask_stride + place, hidden)


@triton.jit
def _best(line, barred, VOCAB: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """Read a row of logits once; return the best of them, its token and its log-probability."""
    lanes = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -1.0e30, tl.float32)  # of each lane; finite, lest -inf meet -inf
    total = tl.zeros((BLOCK,), tl.float32)
    best_at = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, VOCAB, BLOCK):
        columns = start + lanes
        x = tl.load(line + columns, mask=columns < VOCAB, other=float("-inf")).to(tl.float32)
        x = tl.where(columns == barred, float("-inf"), x)
        larger = tl.maximum(best, x)
        total = total * tl.exp(best - larger) + tl.exp(x - larger)
        best_at = tl.where(x > best, columns, best_at)
        best = larger
    top = tl.max(best, axis=0)
    token = tl.min(tl.where(best == top, best_at, VOCAB), axis=0)  # of equal ones the first
    return top, token, -tl.log(tl.sum(total * tl.exp(best - top), axis=0))


@triton.jit(do_not_specialize=["n_rows", "n_segments", "mask_stride"])  # one kernel for all batch sizes
def _choose_kernel(
    logits_ptr, single_ptr, limits_ptr, active_ptr, tokens_ptr, steps_ptr, rows_ptr, n_active_ptr, mask_ptr,
    log_ptr, log_probs_ptr, n_rows, n_segments, mask_stride,
    VOCAB: tl.constexpr, BLOCK: tl.constexpr, DELETE: tl.constexpr, END: tl.constexpr, EMPTY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0)
    line = logits_ptr + row.to(tl.int64) * VOCAB
    single = tl.load(single_ptr + row)
    step, limit, active = tl.load(steps_ptr + row), tl.load(limits_ptr + row), tl.load(active_ptr + row)
    _, token, log_prob = _best(line, tl.where(single != 0, DELETE, -1), VOCAB, BLOCK)
    settle(
        row, token, log_prob, step, limit, active, active_ptr, tokens_ptr, steps_ptr, rows_ptr, n_active_ptr, mask_ptr,
        log_ptr, log_probs_ptr, n_rows, n_segments, mask_stride, DELETE, END, EMPTY,
    )  # fmt: skip


@triton.jit(do_not_specialize=["n_noted"])
def _judge_kernel(logits_ptr, labels_ptr, found_ptr, n_noted, VOCAB: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """Note the best token of a row, its log-probability, and that of the row's label; room is for `n_noted` rows."""
    row = tl.program_id(0)
    line = logits_ptr + row.to(tl.int64) * VOCAB
    given = tl.load(line + tl.load(labels_ptr + row)).to(tl.float32)
    top, token, log_prob = _best(line, -1, VOCAB, BLOCK)
    tl.store(found_ptr + row, token.to(tl.float32))  # ids below 2 ** 24 are exact
    tl.store(found_ptr + n_noted + row, log_prob)
    tl.store(found_ptr + 2 * n_noted + row, given - top + log_prob)


class FusedOps:
    """The operations as one kernel each; inputs lie in memory without gaps."""

    name = "fused"

    def add_norm(self, x: Tensor, y: Tensor, norm: Norm) -> Tensor:
        n_rows, width = x.shape
        out = torch.empty_like(x)
        _add_norm_kernel[(n_rows,)](
            x, y, norm.weight, norm.bias, out, y.shape[0], width, norm.size, norm.eps,
            BLOCK=triton.next_power_of_2(width), num_warps=4 if width <= 1024 else _WARPS,
        )  # fmt: skip
        return out

    def choose(self, logits: Tensor, state: SegmentState) -> None:
        n_rows, vocab = logits.shape
        _choose_kernel[(n_rows,)](
            logits, state.single, state.limits, state.active, state.tokens, state.steps, state.rows, state.n_active,
            state.row_mask, state.log, state.log.view(torch.float32), n_rows, state.n_segments,
            state.row_mask.stride(0), VOCAB=vocab, BLOCK=min(4096, triton.next_power_of_2(vocab)),
            DELETE=DEL, END=EOS, EMPTY=PAD, num_warps=_WARPS,
        )  # fmt: skip

    def judge(self, logits: Tensor, labels: Tensor, found: Tensor) -> None:
        n_rows, vocab = logits.shape
        _judge_kernel[(n_rows,)](
            logits, labels, found, found.stride(0), VOCAB=vocab, BLOCK=min(4096, triton.next_power_of_2(vocab)),
            num_warps=_WARPS,
        )  # fmt: skip
