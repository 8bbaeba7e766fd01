# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels for the few rows of one sentence that read their weights while the kernel before them works.

A layer has six: norm and inputs of attention, attention with its output and sum, the same two for the source, norm and
inner units of the feed-forward layer, its output and sum. Each is cut into many programs that read few weights, and a
product's inputs are shared out among the warps of a program. See `engines.cuda.early` for what begins when.
B sentences, K rows a sentence, R = B * K, D model, H heads, E head, M cache rows, S source, L decoder layers, V
vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recoversat.engines.cuda.early import can_begin_early, launched, let_others_begin, wait_for_results
from recoversat.engines.cuda.kernels import settle
from recoversat.engines.cuda.layers import ManyRows
from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import Memory, Rows, SegmentState
from recoversat.engines.cuda.weights import Affine, Block, Norm, Weights
from recoversat.vocab import DEL, EOS, PAD

_WARPS = 8
_REGISTERS = 255  # as many as there are: a compiler that saves some has loads wait for one another
_UNITS = 16  # outputs of a product that a program computes
_WIDE_UNITS, _WIDE = 32, 4096  # the same for products of so many outputs
_TOKENS = 64  # of the vocabulary, that a program computes
_PLACES = 64
_ENCODED = 128  # rows that the encoder is given: sentences times source
_SIZES = (128, 256, 512)
_HIDDEN = (*(16, 32, 64), *_SIZES, 1024, 2048)


@triton.jit
def _split(SPLIT: tl.constexpr, CHUNK: tl.constexpr):  # noqa: N803
    """Number the inputs of a product (SPLIT, CHUNK): each warp has a part of them."""
    return tl.arange(0, SPLIT)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]


@triton.jit
def _mean_and_rate(sums, eps, SIZE: tl.constexpr):  # noqa: N803
    """Return mean and rate of a norm; `sums` (ROWS, 2) are those of numbers and of their squares.

    So a row is read once. A mean so far from 0 that squares say too little is farther than half precision can tell.
    """
    first, second = tl.split(sums)
    mean = first / SIZE
    return mean, tl.rsqrt(tl.maximum(second / SIZE - mean * mean, 0.0) + eps)


@triton.jit
def _normed(x, gain, shift, eps, SIZE: tl.constexpr):  # noqa: N803
    """Return the norm of x (SPLIT, ROWS, CHUNK) over its first SIZE columns; the others have no gain and no shift."""
    sums = tl.sum(tl.sum(tl.join(x, x * x), axis=2), axis=0)
    mean, rate = _mean_and_rate(sums, eps, SIZE)
    return (x - mean[None, :, None]) * rate[None, :, None] * gain.to(tl.float32) + shift.to(tl.float32)


@triton.jit(do_not_specialize=["n_rows", "each", "room"])
def _inputs_kernel(
    x_ptr, tokens_ptr, table_ptr, positions_ptr, rows_ptr, gain_ptr, shift_ptr, weight_ptr, bias_ptr, out_ptr,
    cache_ptr, n_rows, each, room, eps,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, OUTPUTS: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr,  # noqa: N803
    SPLIT: tl.constexpr, UNITS: tl.constexpr, LOOK_UP: tl.constexpr, CACHE: tl.constexpr, RELU: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Norm and product; LOOK_UP: of embeddings and positions; CACHE: outputs beyond HEADS are keys and values."""
    let_others_begin(EARLY)
    first = tl.program_id(1) * UNITS
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    units = first + tl.arange(0, UNITS)
    columns = _split(SPLIT, WIDTH // SPLIT)
    weight = tl.load(weight_ptr + units[None, None, :] * WIDTH + columns[:, :, None])
    every = tl.zeros((1, ROWS, 1), tl.int32) + columns[:, None, :]  # a norm's weights as the rows lie
    gain, shift = tl.load(gain_ptr + every), tl.load(shift_ptr + every)
    bias = tl.load(bias_ptr + units).to(tl.float32)
    if LOOK_UP or CACHE:
        place = tl.load(rows_ptr) + at % each
    wait_for_results(EARLY)
    kind = x_ptr.dtype.element_ty
    if LOOK_UP:
        word = table_ptr + tl.load(tokens_ptr + at, mask=kept, other=0) * WIDTH
        position = positions_ptr + place * WIDTH
        x = tl.load(word[None, :, None] + columns[:, None, :]).to(tl.float32)
        y = tl.load(position[None, :, None] + columns[:, None, :], mask=kept[None, :, None], other=0.0).to(tl.float32)
        x = (x + y).to(kind)
        if first == 0:
            tl.store(x_ptr + at[None, :, None] * WIDTH + columns[:, None, :], x, mask=kept[None, :, None])
        x = x.to(tl.float32)
    else:
        x = x_ptr + at[None, :, None] * WIDTH + columns[:, None, :]
        x = tl.load(x, mask=kept[None, :, None], other=0.0).to(tl.float32)
    normed = _normed(x, gain, shift, eps, SIZE).to(kind)
    total = tl.sum(tl.dot(normed, weight, input_precision=PRECISION), axis=0) + bias[None, :]
    if RELU:
        total = tl.maximum(total, 0.0)
    total = total.to(kind)
    if CACHE:
        if first >= HEADS:
            row = (at // each).to(tl.int64) * room + place
            tl.store(cache_ptr + row[:, None] * (2 * HEADS) + (units - HEADS)[None, :], total, mask=kept[:, None])
        else:
            tl.store(out_ptr + at[:, None] * HEADS + units[None, :], total, mask=kept[:, None])
    else:
        tl.store(out_ptr + at[:, None] * OUTPUTS + units[None, :], total, mask=kept[:, None])


@triton.jit(do_not_specialize=["n_rows"])
def _output_kernel(
    x_ptr, inner_ptr, weight_ptr, bias_ptr, out_ptr, n_rows,
    INPUTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr, UNITS: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Product and sum: x and what a layer adds to it."""
    let_others_begin(EARLY)
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    columns = _split(SPLIT, INPUTS // SPLIT)
    weight = tl.load(weight_ptr + units[None, None, :] * INPUTS + columns[:, :, None])
    bias = tl.load(bias_ptr + units).to(tl.float32)
    wait_for_results(EARLY)
    place = at[:, None] * WIDTH + units[None, :]
    x = tl.load(x_ptr + place, mask=kept[:, None], other=0.0).to(tl.float32)
    inner = inner_ptr + at[None, :, None] * INPUTS + columns[:, None, :]
    inner = tl.load(inner, mask=kept[None, :, None], other=0.0)
    y = tl.sum(tl.dot(inner, weight, input_precision=PRECISION), axis=0) + bias[None, :]
    kind = x_ptr.dtype.element_ty
    tl.store(out_ptr + place, (x + y.to(kind).to(tl.float32)).to(kind), mask=kept[:, None])


@triton.jit
def _keys_values(line_ptr, start, end, stride, HEADS: tl.constexpr, HEAD: tl.constexpr, N: tl.constexpr):  # noqa: N803
    """Load keys (H, E, N) and values (H, N, E) of rows from `start` on; there are none from `end` on."""
    place = start + tl.arange(0, N)
    inside = place < end
    head = tl.arange(0, HEADS)[:, None, None] * HEAD
    lane = tl.arange(0, HEAD)
    keys = line_ptr + head + lane[None, :, None] + place[None, None, :] * stride
    values = line_ptr + HEADS * HEAD + head + lane[None, None, :] + place[None, :, None] * stride
    keys = tl.load(keys, mask=inside[None, None, :], other=0.0)
    return keys, tl.load(values, mask=inside[None, :, None], other=0.0)


@triton.jit
def _seen(masks, start, end, kept, N: tl.constexpr):  # noqa: N803
    """Say which of N rows from `start` on are seen (1, ROWS, N)."""
    place = start + tl.arange(0, N)
    inside = kept[:, None] & (place < end)[None, :]
    return (tl.load(masks + place[None, :], mask=inside, other=float("-inf")) == 0)[None, :, :]


@triton.jit
def _mixed(query, keys, values, seen, best, total, mixed, scale, PRECISION: tl.constexpr):  # noqa: N803
    """Take more keys and values into attention that goes on: the largest score, the sum and the mixture so far."""
    scores = tl.dot(query, keys, input_precision=PRECISION) * scale
    scores = tl.where(seen, scores, -1.0e30)  # finite, lest -inf meet -inf
    larger = tl.maximum(best, tl.max(scores, axis=2))
    shares = tl.exp(scores - larger[:, :, None])
    shrunk = tl.exp(best - larger)
    total = total * shrunk + tl.sum(shares, axis=2)
    mixed = mixed * shrunk[:, :, None] + tl.dot(shares.to(values.dtype), values, input_precision=PRECISION)
    return larger, total, mixed


@triton.jit(do_not_specialize=["n_rows", "n_old", "mask_sentence", "mask_row"])
def _attend_kernel(
    x_ptr, query_ptr, cache_ptr, rows_ptr, mask_ptr, weight_ptr, bias_ptr, out_ptr, n_rows, n_old,
    sentence_stride, stride, mask_sentence, mask_row, scale,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, PLACES: tl.constexpr,  # noqa: N803
    UNITS: tl.constexpr, OLD: tl.constexpr, NEW: tl.constexpr, MORE: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Attention of all heads, its output and the sum; a head for a warp.

    OLD: rows that no kernel of this step writes are seen: those before the newest ones, or where none are NEW, `n_old`.
    NEW: the rows after them, which the kernel before has written, are seen. MORE: these are more than ROWS.
    """
    let_others_begin(EARLY)
    sentence = tl.program_id(0)
    row = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    kept = row < n_rows
    at = sentence * n_rows + row
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    own = tl.arange(0, HEADS)[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    weight = tl.load(weight_ptr + units[None, None, :] * (HEADS * HEAD) + own[:, :, None])
    bias = tl.load(bias_ptr + units).to(tl.float32)
    line = cache_ptr + sentence.to(tl.int64) * sentence_stride
    masks = mask_ptr + sentence * mask_sentence + row[:, None] * mask_row
    start = n_old
    if NEW:
        start = tl.load(rows_ptr).to(tl.int32)
    end = start + n_rows
    if OLD:
        keys, values = _keys_values(line, 0, start, stride, HEADS, HEAD, PLACES)
        seen = _seen(masks, 0, start, kept, PLACES)
    if NEW:
        new_seen = _seen(masks, start, end, kept, ROWS)
    wait_for_results(EARLY)
    place = at[:, None] * WIDTH + units[None, :]
    x = tl.load(x_ptr + place, mask=kept[:, None], other=0.0).to(tl.float32)
    if NEW:
        new_keys, new_values = _keys_values(line, start, end, stride, HEADS, HEAD, ROWS)
    query = query_ptr + at[None, :, None] * (HEADS * HEAD) + own[:, None, :]
    query = tl.load(query, mask=kept[None, :, None], other=0.0)
    best = tl.full((HEADS, ROWS), -1.0e30, tl.float32)
    total = tl.zeros((HEADS, ROWS), tl.float32)
    mixed = tl.zeros((HEADS, ROWS, HEAD), tl.float32)
    if OLD:
        best, total, mixed = _mixed(query, keys, values, seen, best, total, mixed, scale, PRECISION)
        for more in range(PLACES, start, PLACES):
            keys, values = _keys_values(line, more, start, stride, HEADS, HEAD, PLACES)
            seen = _seen(masks, more, start, kept, PLACES)
            best, total, mixed = _mixed(query, keys, values, seen, best, total, mixed, scale, PRECISION)
    if NEW:
        best, total, mixed = _mixed(query, new_keys, new_values, new_seen, best, total, mixed, scale, PRECISION)
    if MORE:
        for more in range(start + ROWS, end, ROWS):
            keys, values = _keys_values(line, more, end, stride, HEADS, HEAD, ROWS)
            seen = _seen(masks, more, end, kept, ROWS)
            best, total, mixed = _mixed(query, keys, values, seen, best, total, mixed, scale, PRECISION)
    kind = x_ptr.dtype.element_ty
    mixed = (mixed / total[:, :, None]).to(kind)
    y = tl.sum(tl.dot(mixed, weight, input_precision=PRECISION), axis=0) + bias[None, :]
    tl.store(out_ptr + place, (x + y.to(kind).to(tl.float32)).to(kind), mask=kept[:, None])


@triton.jit(do_not_specialize=["n_rows"])
def _scores_kernel(
    x_ptr, gain_ptr, shift_ptr, weight_ptr, bias_ptr, single_ptr, best_ptr, token_ptr, total_ptr, n_rows, eps,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, VOCAB: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr,  # noqa: N803
    DELETE: tl.constexpr, EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Norm, scores of some tokens, and of these the best, its score and the sum of all shares."""
    let_others_begin(EARLY)
    block = tl.program_id(1)
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    tokens = block * TOKENS + tl.arange(0, TOKENS)
    columns = tl.arange(0, WIDTH)
    weight = weight_ptr + tokens[None, :] * WIDTH + columns[:, None]
    weight = tl.load(weight, eviction_policy="evict_first")  # too many to stay beside those of the layers
    every = tl.zeros((ROWS, 1), tl.int32) + columns[None, :]  # a norm's weights as the rows lie
    gain, shift = tl.load(gain_ptr + every), tl.load(shift_ptr + every)
    bias = tl.load(bias_ptr + tokens).to(tl.float32)
    single = tl.load(single_ptr + at, mask=kept, other=0)
    wait_for_results(EARLY)
    x = tl.load(x_ptr + at[:, None] * WIDTH + columns[None, :], mask=kept[:, None], other=0.0).to(tl.float32)
    kind = x_ptr.dtype.element_ty
    mean, rate = _mean_and_rate(tl.sum(tl.join(x, x * x), axis=1), eps, SIZE)
    normed = ((x - mean[:, None]) * rate[:, None] * gain.to(tl.float32) + shift.to(tl.float32)).to(kind)
    scores = tl.dot(normed, weight, input_precision=PRECISION) + bias[None, :]
    scores = scores.to(kind).to(tl.float32)  # rounded as a product of its own would be
    scores = tl.where((tokens == DELETE)[None, :] & (single != 0)[:, None], float("-inf"), scores)
    best = tl.maximum(tl.max(scores, axis=1), -1.0e30)  # finite, lest -inf meet -inf
    token = tl.min(tl.where(scores == best[:, None], tokens[None, :], VOCAB), axis=1)  # of equal ones the first
    total = tl.sum(tl.exp(scores - best[:, None]), axis=1)
    out = at * (VOCAB // TOKENS) + block
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
    let_others_begin(EARLY)
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


class Overlapping(ManyRows):
    """Steps and the encoder of few rows in kernels that begin early (`early` 0: not; None: where the GPU lets them).

    `encoder`, `choice`: whether the encoder and the choice of tokens are among them. `places`: how many rows of a cache
    are seen at a time, where a program has 16 rows; half as many where it has 32.
    """

    def __init__(
        self, weights: Weights, ops: Ops, early: int | None = None, encoder: bool = True, choice: bool = True,
        places: int = _PLACES,
    ) -> None:  # fmt: skip
        super().__init__(weights, ops)
        half = weights.dtype != torch.float32
        self._early = int(can_begin_early(weights.device) if early is None else early)
        self._encoder, self._choice = encoder, choice
        self.most_rows, self._places, self._precision = (32, places, "tf32") if half else (16, places // 4, "ieee")
        self._start = torch.zeros(1, dtype=torch.int64, device=weights.device)
        self._nothing = weights.embedding.new_zeros((1, weights.sizes.d_model))

    @staticmethod
    def fits(weights: Weights) -> bool:
        """Say whether the kernels can do with these sizes."""
        sizes, hidden = weights.sizes, {len(feed.inputs.bias) for *_, feed in (*weights.encoder, *weights.decoder)}
        heads = sizes.head in {16, 32, 64, 128} and sizes.heads in _SIZES
        return heads and sizes.d_model in _SIZES and hidden <= {*_HIDDEN} and sizes.vocab % _TOKENS == 0

    def encode(self, src: Tensor, positions: Tensor, memory: Memory) -> None:
        w, (batch, length) = self._weights, src.shape
        if not self._encoder or batch * length > _ENCODED:
            super().encode(src, positions, memory)
            return
        cache = w.embedding.new_empty((batch, length, 2, *self._heads))
        rows, x = Rows([cache], positions, self._start, memory.mask[:, None]), None
        for attention, feed in w.encoder:
            query, x = self._rows_inputs(x, src.view(-1), attention, rows, cache, length)
            x = self._attend(x, query, attention.output, cache.view(batch, length, -1), rows.mask, self._start)
            x = self._feed(x, feed)
        assert x is not None
        self._inputs(x, w.encoder_norm, w.memory, memory.keys_values)

    def hidden(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        return self._ops.add_norm(self._stack(tokens, rows, memory), self._nothing, self._weights.decoder_norm)

    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        if self._choice:
            self._choose(self._stack(state.tokens, rows, memory), state)
        else:
            super().write(state, rows, n_seen, memory)

    def _choose(self, x: Tensor, state: SegmentState) -> None:
        """Take the best token of each row (R, D), which has not been through the last norm, and note it."""
        w, n_rows, vocab = self._weights, len(x), self._weights.sizes.vocab
        n_blocks, rows, norm = vocab // _TOKENS, self._rows(n_rows), w.decoder_norm
        best, total = (torch.empty((n_rows, n_blocks), device=x.device) for _ in range(2))
        token = torch.empty((n_rows, n_blocks), dtype=torch.int32, device=x.device)
        bias = w.single_bias if state.n_segments == 1 else w.vocabulary.bias
        self._launch(
            _scores_kernel, (triton.cdiv(n_rows, rows), n_blocks), x, *_norm(norm), w.vocabulary.weight, bias,
            state.single, best, token, total, n_rows, norm.eps, SIZE=norm.size, WIDTH=x.shape[1], VOCAB=vocab,
            ROWS=rows, TOKENS=_TOKENS, DELETE=DEL, PRECISION=self._precision,
        )  # fmt: skip
        self._launch(
            _choose_kernel, (n_rows,), best, token, total, state.limits, state.active, state.tokens, state.steps,
            state.rows, state.n_active, state.row_mask, state.log, state.log.view(torch.float32), n_rows,
            state.n_segments, state.row_mask.stride(0), BLOCKS=n_blocks, WIDTH=triton.next_power_of_2(n_blocks),
            VOCAB=vocab, DELETE=DEL, END=EOS, EMPTY=PAD,
        )  # fmt: skip

    def _stack(self, tokens: Tensor, rows: Rows, memory: Memory) -> Tensor:
        """Return the rows after all layers, before the last norm (R, D)."""
        n_layers, (batch, length) = len(self._weights.decoder), memory.mask.shape
        source, x = memory.keys_values.view(batch, length, -1), None
        for number, (attention, cross, feed) in enumerate(self._weights.decoder):
            cache = rows.caches[number]
            query, x = self._rows_inputs(x, tokens, attention, rows, cache, len(rows.newest))
            x = self._attend(x, query, attention.output, cache.flatten(2), rows.mask, rows.newest, old=True)
            query = self._inputs(x, cross.norm, cross.inputs)
            keys_values = source.unflatten(2, (n_layers, -1))[:, :, number]
            x = self._attend(x, query, cross.output, keys_values, memory.mask[:, None], None, old=True)
            x = self._feed(x, feed)
        assert x is not None
        return x

    def _rows_inputs(
        self, x: Tensor | None, tokens: Tensor, block: Block, rows: Rows, cache: Tensor, each: int
    ) -> tuple[Tensor, Tensor]:
        """Return queries (R, H * E) and x, which is looked up where there is none; keys and values go to the cache."""
        look_up, heads = x is None, self._weights.sizes.heads
        if x is None:
            x = self._weights.embedding.new_empty((len(tokens), self._weights.sizes.d_model))
        query = x.new_empty((len(x), heads))
        self._inputs(
            x, block.norm, block.inputs, query, (tokens, self._weights.embedding, rows.positions, rows.newest),
            cache, each, first=look_up, HEADS=heads, LOOK_UP=look_up, CACHE=True,
        )  # fmt: skip
        return query, x

    def _inputs(
        self, x: Tensor, norm: Norm, affine: Affine, out: Tensor | None = None, looked_up: Sequence[Tensor] = (),
        cache: Tensor | None = None, each: int = 1, first: bool = False, **constants: int,
    ) -> Tensor:  # fmt: skip
        """Return a product of the norm of x (R, out); what is not used of a kernel's arguments is x."""
        n_rows, (outputs, width) = len(x), affine.weight.shape
        out = x.new_empty((n_rows, outputs)) if out is None else out
        rows, units = self._rows(n_rows), _WIDE_UNITS if outputs >= _WIDE else _UNITS
        self._launch(
            _inputs_kernel, (triton.cdiv(n_rows, rows), outputs // units), x, *(looked_up or (x, x, x, x)),
            *_norm(norm), affine.weight, affine.bias, out, x if cache is None else cache, n_rows, each,
            1 if cache is None else cache.shape[1], norm.eps, first=first, SIZE=norm.size, WIDTH=width,
            OUTPUTS=outputs, ROWS=rows, SPLIT=_split_of(width), UNITS=units, PRECISION=self._precision,
            **({"HEADS": 0, "LOOK_UP": False, "CACHE": False, "RELU": False} | constants),
        )  # fmt: skip
        return out

    def _attend(
        self, x: Tensor, query: Tensor, affine: Affine, cache: Tensor, mask: Tensor, newest: Tensor | None,
        old: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return x and what its rows see of a cache (B, M, 2 * H * E): of `old` rows and of the newest, if any."""
        sizes, batch, out = self._weights.sizes, len(cache), torch.empty_like(x)
        n_rows = len(x) // batch
        rows = self._rows(n_rows)
        places = min(16 * self._places // rows, triton.next_power_of_2(max(cache.shape[1], 16)))
        self._launch(
            _attend_kernel, (batch, sizes.d_model // _UNITS, triton.cdiv(n_rows, rows)), x, query, cache,
            self._start if newest is None else newest, mask, affine.weight, affine.bias, out, n_rows, cache.shape[1],
            cache.stride(0), cache.stride(1), mask.stride(0) if mask.shape[0] > 1 else 0,
            mask.stride(1) if mask.shape[1] > 1 else 0, sizes.head_true**-0.5, WIDTH=sizes.d_model,
            HEADS=sizes.n_heads, HEAD=sizes.head, ROWS=rows, PLACES=places, UNITS=_UNITS, OLD=old,
            NEW=newest is not None, MORE=newest is not None and n_rows > rows, PRECISION=self._precision,
        )  # fmt: skip
        return out

    def _feed(self, x: Tensor, block: Block) -> Tensor:
        inner, out, n_rows = self._inputs(x, block.norm, block.inputs, RELU=True), torch.empty_like(x), len(x)
        rows, inputs = self._rows(n_rows), inner.shape[1]
        self._launch(
            _output_kernel, (triton.cdiv(n_rows, rows), x.shape[1] // _UNITS), x, inner, block.output.weight,
            block.output.bias, out, n_rows, INPUTS=inputs, WIDTH=x.shape[1], ROWS=rows, SPLIT=_split_of(inputs),
            UNITS=_UNITS, PRECISION=self._precision,
        )  # fmt: skip
        return out

    def _rows(self, n_rows: int) -> int:
        """Say how many rows a program has."""
        return 16 if n_rows <= 16 else self.most_rows

    def _launch(
        self, kernel: Any, grid: tuple[int, ...], *args: object, first: bool = False, **constants: object
    ) -> None:
        """Start a kernel; the first of a step begins when all before it has ended."""
        kernel[grid](
            *args, **constants, EARLY=self._early, num_warps=_WARPS, num_stages=1, maxnreg=_REGISTERS,
            **launched(0 if first else self._early),
        )  # fmt: skip


def _split_of(inputs: int) -> int:
    """Say into how many parts the inputs of a product are cut: one for each warp, of 16 at least."""
    return min(_WARPS, inputs // 16)


def _norm(norm: Norm) -> tuple[Tensor, Tensor]:
    return norm.weight, norm.bias
