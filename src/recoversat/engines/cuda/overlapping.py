# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels for the few rows of one sentence that read their weights while the kernel before them works.

A layer has six: norm and inputs of attention, attention with its output and sum, the same two for the source, norm and
inner units of the feed-forward layer, its output and sum. Each is cut into many programs that read few weights, and a
product's inputs are shared out among the warps of a program. What a program does after it has waited is what counts,
down to the number of its instructions, as each is run once. See `engines.cuda.early` for what begins when.
B sentences, K rows a sentence, R = B * K, D model, H heads, E head, M cache rows, S source, L decoder layers, V
vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from recoversat.engines.cuda.early import can_begin_early, compile_together, launch, wait_for_results
from recoversat.engines.cuda.layers import ManyRows
from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import SEEN, Memory, Rows, SegmentState
from recoversat.engines.cuda.vocabulary import TOKENS, Vocabulary, mean_and_rate
from recoversat.engines.cuda.weights import Affine, Block, Norm, Weights

_WARPS = 8
_REGISTERS = 255  # as many as there are: a compiler that saves some has loads wait for one another
_ROWS = 16  # of a program
_UNITS = 16  # outputs of a product that a program computes
_WIDE_UNITS = 32  # the same for keys and values of the source, which all layers want at once
_ENCODED = 64  # rows that the encoder is given at most: sentences times source
_SIZES = (128, 256, 512)
_HIDDEN = (16, 32, 64, *_SIZES, 1024, 2048)
_LOG2_E = 1.4426950408889634


@triton.jit
def _split(SPLIT: tl.constexpr, CHUNK: tl.constexpr):  # noqa: N803
    """Number the inputs of a product (SPLIT, CHUNK): each warp has a part of them."""
    return tl.arange(0, SPLIT)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]


@triton.jit
def _sums(x, parts_ptr, at, kept, PARTS: tl.constexpr):  # noqa: N803
    """Return the sums of rows and of their squares: of x (SPLIT, ROWS, CHUNK), or of PARTS that were noted."""
    if PARTS:
        part = parts_ptr + at[:, None] * (2 * PARTS) + tl.arange(0, PARTS)[None, :]
        total = tl.sum(tl.load(part, mask=kept[:, None], other=0.0), axis=1)
        squares = tl.sum(tl.load(part + PARTS, mask=kept[:, None], other=0.0), axis=1)
    else:
        x = x.to(tl.float32)
        total, squares = tl.split(tl.sum(tl.sum(tl.join(x, x * x), axis=2), axis=0))
    return total, squares


@triton.jit(do_not_specialize=["n_rows", "each", "room"])
def _inputs_kernel(
    x_ptr, parts_ptr, tokens_ptr, table_ptr, positions_ptr, rows_ptr, sums_ptr, weight_ptr, bias_ptr,
    out_ptr, cache_ptr, n_rows, each, room, outputs, eps,
    SIZE: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr,  # noqa: N803
    UNITS: tl.constexpr, PARTS: tl.constexpr, LOOK_UP: tl.constexpr, CACHE: tl.constexpr, RELU: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Norm and product; LOOK_UP: of embeddings and positions; CACHE: outputs beyond HEADS are keys and values.

    The norm's gain and shift are in the product's weights; `sums` is what a mean of 1 adds to each output.
    """
    first = tl.program_id(1) * UNITS
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    units = first + tl.arange(0, UNITS)
    columns = _split(SPLIT, WIDTH // SPLIT)
    weight = tl.load(weight_ptr + units[None, None, :] * WIDTH + columns[:, :, None])
    sums, bias = tl.load(sums_ptr + units), tl.load(bias_ptr + units)
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
    else:
        x = x_ptr + at[None, :, None] * WIDTH + columns[:, None, :]
        x = tl.load(x, mask=kept[None, :, None], other=0.0)
    total, squares = _sums(x, parts_ptr, at, kept, PARTS)
    mean, rate = mean_and_rate(total, squares, eps, SIZE)
    product = tl.sum(tl.dot(x, weight, input_precision=PRECISION), axis=0)
    product = (product - mean[:, None] * sums[None, :]) * rate[:, None] + bias[None, :]
    if RELU:
        product = tl.maximum(product, 0.0)
    product = product.to(kind)
    if CACHE:
        if first >= HEADS:
            row = (at // each).to(tl.int64) * room + place
            tl.store(cache_ptr + row[:, None] * (2 * HEADS) + (units - HEADS)[None, :], product, mask=kept[:, None])
        else:
            tl.store(out_ptr + at[:, None] * HEADS + units[None, :], product, mask=kept[:, None])
    else:
        tl.store(out_ptr + at[:, None] * outputs + units[None, :], product, mask=kept[:, None])


@triton.jit
def _store(out_ptr, parts_ptr, x, y, at, kept, WIDTH: tl.constexpr, UNITS: tl.constexpr, PARTS: tl.constexpr):  # noqa: N803
    """Store x + y (ROWS, UNITS), and of the PARTS of the next norm's sums those of these units."""
    share = tl.program_id(1)
    kind = out_ptr.dtype.element_ty
    units = share * UNITS + tl.arange(0, UNITS)
    out = (x.to(tl.float32) + y.to(kind).to(tl.float32)).to(kind)  # rounded as a product of its own would be
    tl.store(out_ptr + at[:, None] * WIDTH + units[None, :], out, mask=kept[:, None])
    out = out.to(tl.float32)
    part = parts_ptr + at * (2 * PARTS) + share
    tl.store(part, tl.sum(out, axis=1), mask=kept)
    tl.store(part + PARTS, tl.sum(out * out, axis=1), mask=kept)


@triton.jit(do_not_specialize=["n_rows"])
def _output_kernel(
    x_ptr, inner_ptr, weight_ptr, bias_ptr, out_ptr, parts_ptr, n_rows,
    INPUTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, SPLIT: tl.constexpr, UNITS: tl.constexpr,  # noqa: N803
    PARTS: tl.constexpr, EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Product and sum: x and what a layer adds to it."""
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    columns = _split(SPLIT, INPUTS // SPLIT)
    weight = tl.load(weight_ptr + units[None, None, :] * INPUTS + columns[:, :, None])
    bias = tl.load(bias_ptr + units).to(tl.float32)
    wait_for_results(EARLY)
    inner = inner_ptr + at[None, :, None] * INPUTS + columns[:, None, :]
    inner = tl.load(inner, mask=kept[None, :, None], other=0.0)
    x = tl.load(x_ptr + at[:, None] * WIDTH + units[None, :], mask=kept[:, None], other=0.0)
    y = tl.sum(tl.dot(inner, weight, input_precision=PRECISION), axis=0) + bias[None, :]
    _store(out_ptr, parts_ptr, x, y, at, kept, WIDTH, UNITS, PARTS)


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
def _scores(query, keys, seen, scale, PRECISION: tl.constexpr):  # noqa: N803
    """Return logarithms (base 2) of shares (H, ROWS, N), and the largest; finite, lest -inf meet -inf."""
    scores = tl.where(seen, tl.dot(query, keys, input_precision=PRECISION) * scale, -1.0e30)
    return scores, tl.max(scores, axis=2)


@triton.jit
def _mixed(scores, best, values, total, mixed, PRECISION: tl.constexpr):  # noqa: N803
    """Add shares, and values by their shares, to the sum and the mixture so far."""
    shares = tl.exp2(scores - best[:, :, None])
    mixed = tl.dot(shares.to(values.dtype), values, mixed, input_precision=PRECISION)
    return total + tl.sum(shares, axis=2), mixed


@triton.jit
def _more_seen(
    query, line, masks, first, end, kept, stride, best, total, mixed, scale,
    HEADS: tl.constexpr, HEAD: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Take rows from `first` to `end` into attention that goes on, N at a time."""
    for start in range(first, end, N):
        keys, values = _keys_values(line, start, end, stride, HEADS, HEAD, N)
        scores, largest = _scores(query, keys, _seen(masks, start, end, kept, N), scale, PRECISION)
        larger = tl.maximum(best, largest)
        shrunk = tl.exp2(best - larger)
        total, mixed = _mixed(scores, larger, values, total * shrunk, mixed * shrunk[:, :, None], PRECISION)
        best = larger
    return best, total, mixed


@triton.jit(do_not_specialize=["n_rows", "n_old", "mask_sentence", "mask_row"])
def _attend_kernel(
    x_ptr, query_ptr, cache_ptr, rows_ptr, mask_ptr, weight_ptr, bias_ptr, out_ptr, parts_ptr, n_rows, n_old,
    sentence_stride, stride, mask_sentence, mask_row, scale,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr,  # noqa: N803
    PARTS: tl.constexpr, OLD: tl.constexpr, NEW: tl.constexpr, MORE_OLD: tl.constexpr, MORE_NEW: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Attention of all heads, its output and the sum; a head for a warp.

    OLD: so many rows that no kernel of this step writes are seen, those before the newest ones or, where none are new,
    the first `n_old`. NEW: so many rows after them, which the kernel before has written. MORE: there may be more.
    """
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
        keys, values = _keys_values(line, 0, start, stride, HEADS, HEAD, OLD)
        seen = _seen(masks, 0, start, kept, OLD)
    if NEW:
        new_seen = _seen(masks, start, end, kept, NEW)
    wait_for_results(EARLY)
    if NEW:
        new_keys, new_values = _keys_values(line, start, end, stride, HEADS, HEAD, NEW)
    query = query_ptr + at[None, :, None] * (HEADS * HEAD) + own[:, None, :]
    query = tl.load(query, mask=kept[None, :, None], other=0.0)
    x = tl.load(x_ptr + at[:, None] * WIDTH + units[None, :], mask=kept[:, None], other=0.0)
    best = tl.full((HEADS, ROWS), -1.0e30, tl.float32)
    total = tl.zeros((HEADS, ROWS), tl.float32)
    mixed = tl.zeros((HEADS, ROWS, HEAD), tl.float32)
    if OLD:
        scores, best = _scores(query, keys, seen, scale, PRECISION)
    if NEW:
        new_scores, new_best = _scores(query, new_keys, new_seen, scale, PRECISION)
        best = tl.maximum(best, new_best)
        total, mixed = _mixed(new_scores, best, new_values, total, mixed, PRECISION)
    if OLD:
        total, mixed = _mixed(scores, best, values, total, mixed, PRECISION)
    if MORE_OLD:
        best, total, mixed = _more_seen(
            query, line, masks, OLD, start, kept, stride, best, total, mixed, scale, HEADS, HEAD, OLD, PRECISION
        )
    if MORE_NEW:
        best, total, mixed = _more_seen(
            query, line, masks, start + NEW, end, kept, stride, best, total, mixed, scale, HEADS, HEAD, NEW, PRECISION
        )
    mixed = (mixed * (1.0 / total)[:, :, None]).to(x_ptr.dtype.element_ty)
    y = tl.sum(tl.dot(mixed, weight, input_precision=PRECISION), axis=0) + bias[None, :]
    _store(out_ptr, parts_ptr, x, y, at, kept, WIDTH, UNITS, PARTS)


class _Product(NamedTuple):
    """A norm and the product after it, as `_inputs_kernel` takes them."""

    norm: Norm
    sums: Tensor  # (out,) of the weights, float32
    weight: Tensor  # (out, D) with the norm's gain
    bias: Tensor  # (out,) with what the norm's shift adds, float32


class _Hidden(NamedTuple):
    """Rows between two blocks."""

    x: Tensor  # (R, D)
    parts: Tensor  # (R, 2, PARTS) sums of some of their units, and of their squares; x where they are not known


class Overlapping(ManyRows):
    """Steps and the encoder of few rows; their kernels begin early where the GPU lets them (`early` False: nowhere)."""

    ladder: Sequence[int] = (16, 32, *SEEN)
    goes_ahead = True

    def __init__(self, weights: Weights, ops: Ops, early: bool = True) -> None:
        super().__init__(weights, ops)
        half = weights.dtype != torch.float32
        self._early = early and can_begin_early(weights.device)
        self.most_rows, self._places, self._precision = (32, 64, "tf32") if half else (16, 16, "ieee")
        self._parts = weights.sizes.d_model // _UNITS
        self._start = torch.zeros(1, dtype=torch.int64, device=weights.device)
        self._nothing = weights.embedding.new_zeros((1, weights.sizes.d_model))
        self._encoder = [[_prepared(block) for block in layer] for layer in weights.encoder]
        self._decoder = [[_prepared(block) for block in layer] for layer in weights.decoder]
        self._to_memory = _product(weights.encoder_norm, weights.memory)
        self._vocabulary = Vocabulary(weights, self._precision, self._early)

    @staticmethod
    def fits(weights: Weights) -> bool:
        """Say whether the kernels can do with these sizes."""
        sizes, hidden = weights.sizes, {len(feed.inputs.bias) for *_, feed in (*weights.encoder, *weights.decoder)}
        heads = sizes.head in {16, 32, 64, 128} and sizes.heads in _SIZES
        return sizes.plain and heads and sizes.d_model in _SIZES and hidden <= {*_HIDDEN} and sizes.vocab % TOKENS == 0

    def compile(self, work: Callable[[], object]) -> None:
        compile_together(work)

    def encode(self, src: Tensor, positions: Tensor, memory: Memory) -> None:
        batch, length = src.shape
        if batch * length > _ENCODED:
            super().encode(src, positions, memory)
            return
        cache = self._nothing.new_empty((batch, length, 2, *self._heads))
        rows, hidden = Rows([cache], positions, self._start, memory.mask[:, None]), None
        for (inputs, output), feed in self._encoder:
            query, hidden = self._rows_inputs(hidden, src.view(-1), inputs, rows, cache, length)
            hidden = self._attend(hidden, query, output, cache.flatten(2), rows.mask, self._start, n_old=0)
            hidden = self._feed(hidden, *feed)
        assert hidden is not None
        self._inputs(hidden, self._to_memory, memory.keys_values, UNITS=_WIDE_UNITS)

    def hidden(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        return self._ops.add_norm(self._stack(tokens, rows, n_seen, memory), self._nothing, self._weights.decoder_norm)

    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        self._vocabulary.choose(self._stack(state.tokens, rows, n_seen, memory), state)

    def _stack(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        """Return the rows after all layers, before the last norm (R, D)."""
        (batch, length), n_new, hidden = memory.mask.shape, len(rows.newest), None
        source = memory.keys_values.view(batch, length, len(self._decoder), -1)
        for number, ((inputs, output), (queries, cross), feed) in enumerate(self._decoder):
            cache = rows.caches[number]
            query, hidden = self._rows_inputs(hidden, tokens, inputs, rows, cache, n_new)
            hidden = self._attend(hidden, query, output, cache.flatten(2), rows.mask, rows.newest, n_seen - n_new)
            query = self._inputs(hidden, queries)
            hidden = self._attend(hidden, query, cross, source[:, :, number], memory.mask[:, None], None, length)
            hidden = self._feed(hidden, *feed)
        assert hidden is not None
        return hidden.x

    def _rows_inputs(
        self, hidden: _Hidden | None, tokens: Tensor, product: _Product, rows: Rows, cache: Tensor, each: int
    ) -> tuple[Tensor, _Hidden]:
        """Return queries (R, H * E) and the rows, looked up where there are none; keys and values go to the cache."""
        look_up, heads, table = hidden is None, self._weights.sizes.heads, self._weights.embedding
        if hidden is None:
            x = table.new_empty((len(tokens), table.shape[1]))
            hidden = _Hidden(x, x)
        query = table.new_empty((len(tokens), heads))
        self._inputs(
            hidden, product, query, (tokens, table, rows.positions, rows.newest), cache, each, first=look_up,
            HEADS=heads, LOOK_UP=look_up, CACHE=True,
        )  # fmt: skip
        return query, hidden

    def _inputs(
        self, hidden: _Hidden, product: _Product, out: Tensor | None = None, looked_up: Sequence[Tensor] = (),
        cache: Tensor | None = None, each: int = 1, first: bool = False, **constants: int,
    ) -> Tensor:  # fmt: skip
        """Return a product of the norm of rows (R, out); what is not used of a kernel's arguments is x."""
        x, norm, n_rows, (outputs, width) = hidden.x, product.norm, len(hidden.x), product.weight.shape
        out = x.new_empty((n_rows, outputs)) if out is None else out
        constants = {"HEADS": 0, "UNITS": _UNITS, "LOOK_UP": False, "CACHE": False, "RELU": False} | constants
        self._launch(
            _inputs_kernel, (triton.cdiv(n_rows, _ROWS), outputs // constants["UNITS"]), *hidden,
            *(looked_up or (x, x, x, x)), *product[1:], out, x if cache is None else cache, n_rows, each,
            1 if cache is None else cache.shape[1], outputs, norm.eps, first=first, SIZE=norm.size, WIDTH=width,
            SPLIT=_split_of(width), PARTS=0 if first else self._parts, **constants,
        )  # fmt: skip
        return out

    def _attend(
        self, hidden: _Hidden, query: Tensor, affine: Affine, cache: Tensor, mask: Tensor, newest: Tensor | None,
        n_old: int,
    ) -> _Hidden:  # fmt: skip
        """Return rows and what they see of a cache (B, M, 2 * H * E): up to `n_old` old rows, and the newest if any."""
        sizes, batch, out = self._weights.sizes, len(cache), self._new(hidden)
        n_rows = len(hidden.x) // batch
        old, new = self._places_of(n_old), self._places_of(0 if newest is None else n_rows)
        self._launch(
            _attend_kernel, (batch, sizes.d_model // _UNITS, triton.cdiv(n_rows, _ROWS)), hidden.x, query, cache,
            self._start if newest is None else newest, mask, *_weights(affine), *out, n_rows, n_old,
            cache.stride(0), cache.stride(1), mask.stride(0) if mask.shape[0] > 1 else 0,
            mask.stride(1) if mask.shape[1] > 1 else 0, sizes.head_true**-0.5 * _LOG2_E, WIDTH=sizes.d_model,
            HEADS=sizes.n_heads, HEAD=sizes.head, UNITS=_UNITS, PARTS=self._parts, OLD=old, NEW=new,
            MORE_OLD=n_old > old, MORE_NEW=newest is not None and n_rows > new,
        )  # fmt: skip
        return out

    def _feed(self, hidden: _Hidden, product: _Product, affine: Affine) -> _Hidden:
        inner, out, n_rows = self._inputs(hidden, product, RELU=True), self._new(hidden), len(hidden.x)
        width, inputs = affine.weight.shape
        self._launch(
            _output_kernel, (triton.cdiv(n_rows, _ROWS), width // _UNITS), hidden.x, inner, *_weights(affine), *out,
            n_rows, INPUTS=inputs, WIDTH=width, SPLIT=_split_of(inputs), UNITS=_UNITS, PARTS=self._parts,
        )  # fmt: skip
        return out

    def _new(self, hidden: _Hidden) -> _Hidden:
        """Make room for rows."""
        x = torch.empty_like(hidden.x)
        return _Hidden(x, torch.empty((len(x), 2, self._parts), device=x.device))

    def _places_of(self, n_rows: int) -> int:
        """Say how many rows attention sees at a time of so many."""
        return min(triton.next_power_of_2(max(n_rows, 16)), self._places) if n_rows else 0

    def _launch(self, kernel: Any, grid: tuple[int, ...], *args: object, **constants: Any) -> None:
        launch(
            kernel, grid, *args, **constants, ROWS=_ROWS, PRECISION=self._precision, early=self._early,
            num_warps=_WARPS, num_stages=1, maxnreg=_REGISTERS,
        )  # fmt: skip


def _prepared(block: Block) -> tuple[_Product, Affine]:
    return _product(block.norm, block.inputs), block.output


def _product(norm: Norm, affine: Affine) -> _Product:
    """Put a norm's gain and shift into the weights after it."""
    weight = (affine.weight.float() * norm.weight.float()).to(affine.weight.dtype)
    bias = affine.bias.float() + affine.weight.float() @ norm.bias.float()
    return _Product(norm, weight.float().sum(dim=1), weight, bias)


def _split_of(inputs: int) -> int:
    """Say into how many parts the inputs of a product are cut: one for each warp, of 16 at least."""
    return min(_WARPS, inputs // 16)


def _weights(affine: Affine) -> tuple[Tensor, Tensor]:
    return affine.weight, affine.bias
