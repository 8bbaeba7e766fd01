# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels that choose the tokens of few rows: norm, scores of the whole vocabulary, the best of them.

One kernel finds the best of some tokens and the sum of their shares, another the best of all; the scores themselves are
never stored. R rows, D model, V vocabulary. See `engines.cuda.early` for what begins when.
"""

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


@triton.jit
def mean_and_rate(total, squares, eps, SIZE: tl.constexpr):  # noqa: N803
    """Return mean and rate of a norm over SIZE numbers, from their sum and that of their squares.

    So a row is read once. A mean so far from 0 that squares say too little is farther than half precision can tell.
    """
    mean = total / SIZE
    return mean, tl.rsqrt(tl.maximum(squares / SIZE - mean * mean, 0.0) + eps)


@triton.jit
def _normed(x_ptr, gain, shift, at, kept, eps, SIZE: tl.constexpr, WIDTH: tl.constexpr):  # noqa: N803
    """Load rows and return their norm (ROWS, WIDTH)."""
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
    """Chooses tokens."""

    def __init__(self, weights: Weights, precision: str, early: bool) -> None:
        self._weights, self._precision, self._early = weights, precision, early
        self._blocks = weights.sizes.vocab // TOKENS

    def choose(self, x: Tensor, state: SegmentState) -> None:
        """Take the best token of each row (R, D), which has not been through the last norm, and note it."""
        n_rows, shape = len(x), (len(x), self._blocks)
        best, total = (torch.empty(shape, device=x.device) for _ in range(2))
        token = torch.empty(shape, dtype=torch.int32, device=x.device)
        self._score(x, state, best, token, total)
        launch(
            _choose_kernel, (n_rows,), best, token, total, state.limits, state.active, state.tokens, state.steps,
            state.rows, state.n_active, state.row_mask, state.log, state.log.view(torch.float32), n_rows,
            state.n_segments, state.row_mask.stride(0), BLOCKS=self._blocks, WIDTH=triton.next_power_of_2(self._blocks),
            VOCAB=self._weights.sizes.vocab, DELETE=DEL, END=EOS, EMPTY=PAD, early=self._early, num_warps=4,
        )  # fmt: skip

    def _score(self, x: Tensor, state: SegmentState, *found: Tensor) -> None:
        """Find best scores, tokens and sums of shares (R, blocks)."""
        w, (n_rows, width), norm = self._weights, x.shape, self._weights.decoder_norm
        bias = w.single_bias if state.n_segments == 1 else w.vocabulary.bias
        launch(
            _scores_kernel, (triton.cdiv(n_rows, _ROWS), self._blocks), x, norm.weight, norm.bias, w.vocabulary.weight,
            bias, state.single, *found, n_rows, norm.eps, SIZE=norm.size, WIDTH=width, VOCAB=w.sizes.vocab, ROWS=_ROWS,
            COUNT=TOKENS, DELETE=DEL, PRECISION=self._precision, early=self._early, num_warps=_WARPS, num_stages=1,
            maxnreg=255,
        )  # fmt: skip
