# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels that choose the tokens of few rows: norm, scores of the whole vocabulary, the best of them.

One kernel finds the best of some tokens and the sum of their shares, another the best of all; the scores themselves are
never stored. R rows, D model, V vocabulary. See `engines.cuda.early` for what begins when.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recoversat.engines.cuda.early import launch, wait_for_results
from recoversat.engines.cuda.kernels import settle
from recoversat.engines.cuda.state import SegmentState
from recoversat.engines.cuda.weights import Weights
from recoversat.vocab import DEL, EOS, PAD

TOKENS = 64  # that are scored at a time: the vocabulary's size is a multiple of it
_WARPS = 8
_ROWS = 16  # of a program
_MOST_ROWS = 32  # of a program that reads many tokens: more do not fit
_PROGRAMS_ON_A_CPU = 4


@triton.jit
def mean_and_rate(total, squares, eps, SIZE: tl.constexpr):  # noqa: N803
    """Return mean and rate of a norm over SIZE numbers, from their sum and that of their squares.

    So a row is read once. A mean so far from 0 that squares say too little is farther than half precision can tell.
    """
    mean = total / SIZE
    return mean, tl.rsqrt(tl.maximum(squares / SIZE - mean * mean, 0.0) + eps)


@triton.jit
def _normed(x_ptr, gain, shift, at, kept, eps, SIZE: tl.constexpr, WIDTH: tl.constexpr):  # noqa: N803
    """Load rows and return their norm (ROWS, WIDTH); gain and shift may be given for each row."""
    columns = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + at[:, None] * WIDTH + columns[None, :], mask=kept[:, None], other=0.0).to(tl.float32)
    total, squares = tl.split(tl.sum(tl.join(x, x * x), axis=1))
    mean, rate = mean_and_rate(total, squares, eps, SIZE)
    normed = (x - mean[:, None]) * rate[:, None] * gain.to(tl.float32) + shift.to(tl.float32)
    return normed.to(x_ptr.dtype.element_ty)


@triton.jit(do_not_specialize=["n_rows"])
def _scores_kernel(
    x_ptr, gain_ptr, shift_ptr, weight_ptr, bias_ptr, single_ptr, best_ptr, token_ptr, total_ptr, n_rows, eps,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, VOCAB: tl.constexpr, ROWS: tl.constexpr, COUNT: tl.constexpr,  # noqa: N803
    DELETE: tl.constexpr, EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Scores of COUNT tokens, and of these the best, its score and the sum of all shares."""
    block = tl.program_id(1)
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    tokens = block * COUNT + tl.arange(0, COUNT)
    columns = tl.arange(0, WIDTH)
    weight = weight_ptr + tokens[None, :] * WIDTH + columns[:, None]
    weight = tl.load(weight, eviction_policy="evict_first")  # too many to stay beside those of the layers
    every = tl.zeros((ROWS, 1), tl.int32) + columns[None, :]  # a norm's weights as the rows lie
    gain, shift = tl.load(gain_ptr + every), tl.load(shift_ptr + every)
    bias = tl.load(bias_ptr + tokens).to(tl.float32)
    single = tl.load(single_ptr + at, mask=kept, other=0)
    wait_for_results(EARLY)
    normed = _normed(x_ptr, gain, shift, at, kept, eps, SIZE, WIDTH)
    scores = tl.dot(normed, weight, input_precision=PRECISION) + bias[None, :]
    scores = scores.to(x_ptr.dtype.element_ty).to(tl.float32)  # rounded as a product of its own would be
    scores = tl.where((tokens == DELETE)[None, :] & (single != 0)[:, None], float("-inf"), scores)
    best = tl.maximum(tl.max(scores, axis=1), -1.0e30)  # finite, lest -inf meet -inf
    token = tl.min(tl.where(scores == best[:, None], tokens[None, :], VOCAB), axis=1)  # of equal ones the first
    total = tl.sum(tl.exp(scores - best[:, None]), axis=1)
    out = at * (VOCAB // COUNT) + block
    tl.store(best_ptr + out, best, mask=kept)
    tl.store(token_ptr + out, token, mask=kept)
    tl.store(total_ptr + out, total, mask=kept)


@triton.jit
def _read_ahead(weight_ptr, block, COUNT: tl.constexpr, WIDTH: tl.constexpr):  # noqa: N803
    """Have the GPU's cache read the weights of a block of tokens, 256 bytes a thread; nobody waits for it."""
    piece: tl.constexpr = 2048 // weight_ptr.dtype.element_ty.primitive_bitwidth
    at = weight_ptr + block * (COUNT * WIDTH) + tl.arange(0, COUNT * WIDTH // piece) * piece
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], 256; mov.u32 $0, 0;", "=r,l", [at.to(tl.int64)],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["n_rows"])
def _stream_kernel(
    x_ptr, gain_ptr, shift_ptr, weight_ptr, bias_ptr, single_ptr, best_ptr, token_ptr, total_ptr, n_rows, eps,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, VOCAB: tl.constexpr, ROWS: tl.constexpr, COUNT: tl.constexpr,  # noqa: N803
    PROGRAMS: tl.constexpr, STAGES: tl.constexpr, DELETE: tl.constexpr, EARLY: tl.constexpr,  # noqa: N803
    PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """The same of every PROGRAMS-th block of tokens: while one is scored the next is read."""
    program = tl.program_id(1)
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    lane, columns = tl.arange(0, COUNT), tl.arange(0, WIDTH)
    if EARLY:
        for block in range(program, VOCAB // COUNT, PROGRAMS):
            _read_ahead(weight_ptr, block, COUNT, WIDTH)
    gain, shift = tl.load(gain_ptr + columns), tl.load(shift_ptr + columns)
    single = tl.load(single_ptr + at, mask=kept, other=0)
    wait_for_results(EARLY)
    turned = tl.trans(_normed(x_ptr, gain[None, :], shift[None, :], at, kept, eps, SIZE, WIDTH))
    best = tl.full((COUNT, ROWS), -1.0e30, tl.float32)  # of each lane; finite, lest -inf meet -inf
    total = tl.zeros((COUNT, ROWS), tl.float32)
    token = tl.zeros((COUNT, ROWS), tl.int32)
    for block in tl.range(program, VOCAB // COUNT, PROGRAMS, num_stages=STAGES):
        tokens = block * COUNT + lane
        weight = tl.load(weight_ptr + tokens[:, None] * WIDTH + columns[None, :])
        bias = tl.load(bias_ptr + tokens).to(tl.float32)
        scores = tl.dot(weight, turned, input_precision=PRECISION) + bias[:, None]
        scores = scores.to(x_ptr.dtype.element_ty).to(tl.float32)  # rounded as a product of its own would be
        scores = tl.where((tokens == DELETE)[:, None] & (single != 0)[None, :], float("-inf"), scores)
        larger = tl.maximum(best, scores)
        total = total * tl.exp(best - larger) + tl.exp(scores - larger)
        token = tl.where(scores > best, tokens[:, None], token)
        best = larger
    top = tl.max(best, axis=0)
    token = tl.min(tl.where(best == top[None, :], token, VOCAB), axis=0)  # of equal ones the first
    total = tl.sum(total * tl.exp(best - top[None, :]), axis=0)
    out = at * PROGRAMS + program
    tl.store(best_ptr + out, top, mask=kept)
    tl.store(token_ptr + out, token, mask=kept)
    tl.store(total_ptr + out, total, mask=kept)


@triton.jit(do_not_specialize=["n_rows", "n_segments", "mask_stride"])
def _choose_kernel(
    best_ptr, token_ptr, total_ptr, limits_ptr, active_ptr, tokens_ptr, steps_ptr, rows_ptr, n_active_ptr,
    mask_ptr, log_ptr, log_probs_ptr, n_rows, n_segments, mask_stride,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr, VOCAB: tl.constexpr, DELETE: tl.constexpr, END: tl.constexpr,  # noqa: N803
    EMPTY: tl.constexpr, EARLY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Take the best of all blocks of tokens, and note what follows from it."""
    row = tl.program_id(0)
    block = tl.arange(0, WIDTH)
    step, limit, active = tl.load(steps_ptr + row), tl.load(limits_ptr + row), tl.load(active_ptr + row)
    wait_for_results(EARLY)
    inside = block < BLOCKS
    best = tl.load(best_ptr + row * BLOCKS + block, mask=inside, other=-1.0e30)
    token = tl.load(token_ptr + row * BLOCKS + block, mask=inside, other=VOCAB)
    total = tl.load(total_ptr + row * BLOCKS + block, mask=inside, other=0.0)
    top = tl.max(best, axis=0)
    token = tl.min(tl.where(best == top, token, VOCAB), axis=0)  # of equal ones the first
    log_prob = -tl.log(tl.sum(total * tl.exp(best - top), axis=0))
    settle(
        row, token, log_prob, step, limit, active, active_ptr, tokens_ptr, steps_ptr, rows_ptr, n_active_ptr, mask_ptr,
        log_ptr, log_probs_ptr, n_rows, n_segments, mask_stride, DELETE, END, EMPTY,
    )  # fmt: skip


class Vocabulary:
    """Chooses tokens; `streamed`: each program reads many blocks of the vocabulary, not one."""

    def __init__(self, weights: Weights, precision: str, early: bool, streamed: bool) -> None:
        self._weights, self._precision, self._early, self._streamed = weights, precision, early, streamed
        self._blocks = weights.sizes.vocab // TOKENS
        self._programs = min(_multiprocessors(weights.device), self._blocks) if streamed else self._blocks

    def choose(self, x: Tensor, state: SegmentState) -> None:
        """Take the best token of each row (R, D), which has not been through the last norm, and note it."""
        n_rows, shape = len(x), (len(x), self._programs)
        best, total = (torch.empty(shape, device=x.device) for _ in range(2))
        token = torch.empty(shape, dtype=torch.int32, device=x.device)
        self._score(x, state, best, token, total)
        launch(
            _choose_kernel, (n_rows,), best, token, total, state.limits, state.active, state.tokens, state.steps,
            state.rows, state.n_active, state.row_mask, state.log, state.log.view(torch.float32), n_rows,
            state.n_segments, state.row_mask.stride(0), BLOCKS=self._programs,
            WIDTH=triton.next_power_of_2(self._programs), VOCAB=self._weights.sizes.vocab, DELETE=DEL, END=EOS,
            EMPTY=PAD, early=self._early, num_warps=4,
        )  # fmt: skip

    def _score(self, x: Tensor, state: SegmentState, *found: Tensor) -> None:
        """Find best scores, tokens and sums of shares (R, programs)."""
        w, (n_rows, width), norm = self._weights, x.shape, self._weights.decoder_norm
        kernel, rows, constants = _scores_kernel, _ROWS, dict[str, Any]()
        if self._streamed:
            kernel, rows = _stream_kernel, _ROWS if n_rows <= _ROWS else _MOST_ROWS
            constants = {"PROGRAMS": self._programs, "STAGES": 2 if w.dtype.itemsize == 2 else 1}
        bias = w.single_bias if state.n_segments == 1 else w.vocabulary.bias
        launch(
            kernel, (triton.cdiv(n_rows, rows), self._programs), x, norm.weight, norm.bias, w.vocabulary.weight, bias,
            state.single, *found, n_rows, norm.eps, SIZE=norm.size, WIDTH=width, VOCAB=w.sizes.vocab, ROWS=rows,
            COUNT=TOKENS, DELETE=DEL, PRECISION=self._precision, **constants, early=self._early, num_warps=_WARPS,
            num_stages=1, maxnreg=255,
        )  # fmt: skip


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return _PROGRAMS_ON_A_CPU
    return torch.cuda.get_device_properties(device).multi_processor_count
