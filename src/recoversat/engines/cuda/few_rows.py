# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped"
"""Triton kernels for the few rows of some sentences, where a step is a chain of kernels that do next to nothing.

Each takes what lies between two products into one of them: the sum of what came before, its norm, a product, and
attention with the product's own head. A program computes the norm of all its rows anew, which costs less than a kernel.
B sentences, K rows a sentence, R = B * K, D model, H heads, E head, M cache rows, S source, L decoder layers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from recoversat.engines.cuda.early import can_begin_early, compile_together, launch, wait_for_results
from recoversat.engines.cuda.layers import ManyRows, linear
from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import Memory, Rows
from recoversat.engines.cuda.weights import Affine, Block, Norm, Weights

_UNITS = 16  # of a feed-forward layer, that a program computes


@triton.jit
def _normed(
    x_ptr, y_ptr, total_ptr, weight_ptr, bias_ptr, at, y_at, kept, size, eps, share,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Return the norm of x + y (ROWS, BLOCK); the first program that has the rows stores the sums."""
    columns = tl.arange(0, BLOCK)
    inside = kept[:, None] & (columns < WIDTH)[None, :]
    x = tl.load(x_ptr + at[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + y_at[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    kind = x_ptr.dtype.element_ty
    total = (x + y).to(kind)  # rounded as a sum of its own would be
    if share == 0:
        tl.store(total_ptr + at[:, None] * WIDTH + columns[None, :], total, mask=inside)
    sums = total.to(tl.float32)
    mean = tl.sum(sums, axis=1) / size
    centred = tl.where((columns < size)[None, :], sums - mean[:, None], 0.0)
    rate = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / size + eps)
    return (centred * rate[:, None] * weight[None, :] + bias[None, :]).to(kind)


@triton.jit
def _turned(weight_ptr, first, columns, WIDTH: tl.constexpr, N: tl.constexpr):  # noqa: N803
    """Load rows `first` to `first` + N of a weight (out, in), turned: (columns, N)."""
    at = weight_ptr + (first + tl.arange(0, N))[None, :] * WIDTH + columns[:, None]
    return tl.load(at, mask=(columns < WIDTH)[:, None], other=0.0)


@triton.jit
def _mixed(query, keys, values, seen, best, total, mixed, scale, PRECISION: tl.constexpr):  # noqa: N803
    """Take more keys and values into attention that goes on: the largest score, the sum and the mixture so far."""
    scores = tl.dot(query, tl.trans(keys), input_precision=PRECISION) * scale
    scores = tl.where(seen, scores, -1.0e30)  # finite, lest -inf meet -inf
    larger = tl.maximum(best, tl.max(scores, axis=1))
    shares = tl.exp(scores - larger[:, None])
    shrunk = tl.exp(best - larger)
    total = total * shrunk + tl.sum(shares, axis=1)
    mixed = mixed * shrunk[:, None] + tl.dot(shares.to(values.dtype), values, input_precision=PRECISION)
    return larger, total, mixed


@triton.jit(do_not_specialize=["y_rows", "n_rows", "room", "mask_sentence", "mask_row"])
def _self_kernel(
    x_ptr, y_ptr, total_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, cache_ptr, rows_ptr, mask_ptr,
    out_ptr, y_rows, n_rows, size, eps, scale, room, mask_sentence, mask_row,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr,  # noqa: N803
    PLACES: tl.constexpr, EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1)
    row, lane = tl.arange(0, ROWS), tl.arange(0, HEAD)
    kept = row < n_rows
    at = sentence * n_rows + row
    y_at = at % y_rows
    own = head * HEAD + lane
    all_columns = tl.arange(0, BLOCK)
    newest = tl.load(rows_ptr + row, mask=kept, other=0)  # what depends on nothing is read first
    first = tl.load(rows_ptr)  # rows before it were written in earlier steps, rows after the newest are seen by none
    query_bias = tl.load(bias_ptr + own).to(tl.float32)
    key_bias = tl.load(bias_ptr + HEADS * HEAD + own).to(tl.float32)
    value_bias = tl.load(bias_ptr + 2 * HEADS * HEAD + own).to(tl.float32)
    to_query = _turned(weight_ptr, head * HEAD, all_columns, WIDTH, HEAD)
    masks = mask_ptr + sentence * mask_sentence + row[:, None] * mask_row  # (ROWS, 1)
    own_seen = tl.load(masks + newest[None, :], mask=kept[:, None] & kept[None, :], other=float("-inf")) == 0
    wait_for_results(EARLY)
    normed = _normed(
        x_ptr, y_ptr, total_ptr, norm_weight_ptr, norm_bias_ptr, at, y_at, kept, size, eps, head, WIDTH, BLOCK
    )  # fmt: skip
    kind = x_ptr.dtype.element_ty
    query = tl.dot(normed, to_query, input_precision=PRECISION)
    to_key = _turned(weight_ptr, (HEADS + head) * HEAD, all_columns, WIDTH, HEAD)
    key = tl.dot(normed, to_key, input_precision=PRECISION)
    to_value = _turned(weight_ptr, (2 * HEADS + head) * HEAD, all_columns, WIDTH, HEAD)
    value = tl.dot(normed, to_value, input_precision=PRECISION)
    query = (query + query_bias[None, :]).to(kind)
    key = (key + key_bias[None, :]).to(kind)
    value = (value + value_bias[None, :]).to(kind)

    base = cache_ptr + sentence.to(tl.int64) * room * (2 * HEADS * HEAD)
    place = base + newest[:, None] * (2 * HEADS * HEAD) + own[None, :]
    tl.store(place, key, mask=kept[:, None])
    tl.store(place + HEADS * HEAD, value, mask=kept[:, None])

    best = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, HEAD), tl.float32)
    best, total, mixed = _mixed(query, key, value, own_seen, best, total, mixed, scale, PRECISION)
    for start in range(0, first, PLACES):
        places = start + tl.arange(0, PLACES)
        old = places < first
        cached = base + places[:, None] * (2 * HEADS * HEAD) + own[None, :]
        keys = tl.load(cached, mask=old[:, None], other=0.0)
        values = tl.load(cached + HEADS * HEAD, mask=old[:, None], other=0.0)
        visible = tl.load(masks + places[None, :], mask=kept[:, None] & old[None, :], other=float("-inf")) == 0
        best, total, mixed = _mixed(query, keys, values, visible, best, total, mixed, scale, PRECISION)
    out = out_ptr + at[:, None] * (HEADS * HEAD) + own[None, :]
    tl.store(out, (mixed / total[:, None]).to(kind), mask=kept[:, None])


@triton.jit(do_not_specialize=["n_rows", "length", "layer", "layers"])
def _cross_kernel(
    x_ptr, y_ptr, total_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, memory_ptr, mask_ptr, out_ptr,
    n_rows, size, eps, scale, length, layer, layers,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr,  # noqa: N803
    PLACES: tl.constexpr, EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1)
    row, lane = tl.arange(0, ROWS), tl.arange(0, HEAD)
    kept = row < n_rows
    at = sentence * n_rows + row
    own = head * HEAD + lane
    bias = tl.load(bias_ptr + own).to(tl.float32)
    to_query = _turned(weight_ptr, head * HEAD, tl.arange(0, BLOCK), WIDTH, HEAD)
    wait_for_results(EARLY)
    normed = _normed(
        x_ptr, y_ptr, total_ptr, norm_weight_ptr, norm_bias_ptr, at, at, kept, size, eps, head, WIDTH, BLOCK
    )  # fmt: skip
    kind = x_ptr.dtype.element_ty
    query = (tl.dot(normed, to_query, input_precision=PRECISION) + bias[None, :]).to(kind)
    best = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, HEAD), tl.float32)
    stride = layers * 2 * HEADS * HEAD
    base = memory_ptr + sentence.to(tl.int64) * length * stride + layer * 2 * HEADS * HEAD
    for start in range(0, length, PLACES):
        places = start + tl.arange(0, PLACES)
        inside = places < length
        source = base + places[:, None] * stride + own[None, :]
        keys = tl.load(source, mask=inside[:, None], other=0.0)
        values = tl.load(source + HEADS * HEAD, mask=inside[:, None], other=0.0)
        visible = tl.load(mask_ptr + sentence * length + places, mask=inside, other=float("-inf")) == 0
        best, total, mixed = _mixed(
            query, keys, values, kept[:, None] & visible[None, :], best, total, mixed, scale, PRECISION
        )
    out = out_ptr + at[:, None] * (HEADS * HEAD) + own[None, :]
    tl.store(out, (mixed / total[:, None]).to(kind), mask=kept[:, None])


@triton.jit(do_not_specialize=["n_rows"])
def _feed_kernel(
    x_ptr, y_ptr, total_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, out_ptr, n_rows, size, eps,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, HIDDEN: tl.constexpr, ROWS: tl.constexpr,  # noqa: N803
    UNITS: tl.constexpr, EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    block, first = tl.program_id(0), tl.program_id(1) * UNITS
    at = block * ROWS + tl.arange(0, ROWS)
    kept = at < n_rows
    units = first + tl.arange(0, UNITS)
    bias = tl.load(bias_ptr + units).to(tl.float32)
    weight = _turned(weight_ptr, first, tl.arange(0, BLOCK), WIDTH, UNITS)
    wait_for_results(EARLY)
    normed = _normed(
        x_ptr, y_ptr, total_ptr, norm_weight_ptr, norm_bias_ptr, at, at, kept, size, eps, first, WIDTH, BLOCK
    )  # fmt: skip
    inner = tl.maximum(tl.dot(normed, weight, input_precision=PRECISION) + bias[None, :], 0.0)
    tl.store(out_ptr + at[:, None] * HIDDEN + units[None, :], inner.to(x_ptr.dtype.element_ty), mask=kept[:, None])


@triton.jit(do_not_specialize=["n_rows"])
def _project_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, n_rows,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, UNITS: tl.constexpr,  # noqa: N803
    EARLY: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    wait_for_results(EARLY)
    first = tl.program_id(1) * UNITS
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    kept = (at < n_rows)[:, None]
    total = tl.zeros((ROWS, UNITS), tl.float32)
    for start in range(0, INPUTS, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        x = tl.load(x_ptr + at[:, None] * INPUTS + columns[None, :], mask=kept, other=0.0)
        total = tl.dot(x, _turned(weight_ptr, first, columns, INPUTS, UNITS), total, input_precision=PRECISION)
    units = first + tl.arange(0, UNITS)
    total += tl.load(bias_ptr + units).to(tl.float32)[None, :]
    tl.store(out_ptr + at[:, None] * OUTPUTS + units[None, :], total.to(x_ptr.dtype.element_ty), mask=kept)


@triton.jit(do_not_specialize=["n_rows"])
def _embed_kernel(
    tokens_ptr, newest_ptr, table_ptr, positions_ptr, x_ptr, y_ptr, n_rows,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,  # noqa: N803
):  # fmt: skip
    wait_for_results(EARLY)
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    token, place = tl.load(tokens_ptr + row), tl.load(newest_ptr + row % n_rows)
    tl.store(x_ptr + row * WIDTH + columns, tl.load(table_ptr + token * WIDTH + columns, mask=inside), mask=inside)
    tl.store(y_ptr + row * WIDTH + columns, tl.load(positions_ptr + place * WIDTH + columns, mask=inside), mask=inside)


class Tiles(NamedTuple):
    """How the work of a kernel is cut; measured on an H200 (`benchmarks/few_rows.py`)."""

    chunk: int  # inputs of a product at a time
    warps: int
    stages: int


class FewRows(ManyRows):
    """A decoder layer in half as many kernels as otherwise; `early`: each begins before the one before has ended."""

    most_rows = 32

    def __init__(self, weights: Weights, ops: Ops, early: bool = False) -> None:
        super().__init__(weights, ops)
        half, sizes = weights.dtype != torch.float32, weights.sizes
        self._embedding, self._sizes, self._precision = weights.embedding, sizes, "tf32" if half else "ieee"
        self._scale, self._early = sizes.head_true**-0.5, early and can_begin_early(weights.device)
        wide, narrow = (Tiles(128, 8, 3), Tiles(128, 4, 3)) if half else (Tiles(32, 4, 1), Tiles(32, 4, 1))
        self._self, self._cross, self._inner_tiles, self._outer = wide, narrow, narrow, narrow

    @staticmethod
    def fits(weights: Weights) -> bool:
        """Say whether the kernels can do with these sizes."""
        sizes, hidden = weights.sizes, [len(feed.inputs.bias) for _, _, feed in weights.decoder]
        even = sizes.d_model % 128 == 0 and sizes.d_model <= 1024 and all(size % _UNITS == 0 for size in hidden)
        return sizes.plain and sizes.head in {16, 32, 64, 128} and even

    def compile(self, work: Callable[[], object]) -> None:
        compile_together(work)

    def embed(self, tokens: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        table = self._embedding
        x = table.new_empty((len(tokens), table.shape[1]))
        y = torch.empty_like(x)
        launch(
            _embed_kernel, (len(tokens),), tokens, rows.newest, table, rows.positions, x, y, len(rows.newest),
            WIDTH=x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), early=self._early, first=True, num_warps=4,
        )  # fmt: skip
        return x, y

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        cache, tiles, mask = rows.caches[layer], self._self, rows.mask
        batch, n_rows = cache.shape[0], len(rows.newest)
        total, out = torch.empty_like(x), x.new_empty((len(x), self._sizes.heads))
        launch(
            _self_kernel, (batch, self._sizes.n_heads), x, y, total, *_weights(block.norm, block.inputs), cache,
            rows.newest, mask, out, len(y), n_rows, block.norm.size, block.norm.eps, self._scale, cache.shape[1],
            mask.stride(0) if mask.shape[0] > 1 else 0, mask.stride(1) if mask.shape[1] > 1 else 0,
            **self._constants(n_rows, tiles), PLACES=32,
        )  # fmt: skip
        return total, out

    def attend_source(self, x: Tensor, y: Tensor, block: Block, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        batch, length, layers = memory.keys_values.shape[:3]
        total, out = torch.empty_like(x), x.new_empty((len(x), self._sizes.heads))
        n_rows, tiles = len(x) // batch, self._cross
        launch(
            _cross_kernel, (batch, self._sizes.n_heads), x, y, total, *_weights(block.norm, block.inputs),
            memory.keys_values, memory.mask, out, n_rows, block.norm.size, block.norm.eps, self._scale, length, layer,
            layers, **self._constants(n_rows, tiles), PLACES=32,
        )  # fmt: skip
        return total, out

    def feed(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        tiles, hidden = self._inner_tiles, len(block.inputs.bias)
        total, out = torch.empty_like(x), x.new_empty((len(x), hidden))
        constants = self._constants(min(len(x), 32), tiles)
        del constants["HEADS"], constants["HEAD"]
        launch(
            _feed_kernel, (triton.cdiv(len(x), constants["ROWS"]), hidden // _UNITS), x, y, total,
            *_weights(block.norm, block.inputs), out, len(x), block.norm.size, block.norm.eps,
            **constants, HIDDEN=hidden, UNITS=_UNITS,
        )  # fmt: skip
        return total, out

    def project(self, x: Tensor, affine: Affine) -> Tensor:
        outputs, inputs = affine.weight.shape
        if inputs % self._outer.chunk:
            return linear(x, affine)
        out, n_rows = x.new_empty((len(x), outputs)), max(16, triton.next_power_of_2(min(len(x), 32)))
        launch(
            _project_kernel, (triton.cdiv(len(x), n_rows), outputs // _UNITS), x, affine.weight, affine.bias, out,
            len(x), INPUTS=inputs, OUTPUTS=outputs, ROWS=n_rows, CHUNK=self._outer.chunk, UNITS=_UNITS,
            PRECISION=self._precision, num_warps=self._outer.warps, num_stages=self._outer.stages, early=self._early,
        )  # fmt: skip
        return out

    def _constants(self, n_rows: int, tiles: Tiles) -> dict[str, Any]:
        width = self._sizes.d_model
        return {
            "WIDTH": width, "BLOCK": triton.next_power_of_2(width), "HEADS": self._sizes.n_heads,
            "HEAD": self._sizes.head, "ROWS": max(16, triton.next_power_of_2(n_rows)),
            "PRECISION": self._precision, "num_warps": tiles.warps, "num_stages": tiles.stages,
            "early": self._early,
        }  # fmt: skip


def _weights(norm: Norm, affine: Affine) -> tuple[Tensor, ...]:
    return norm.weight, norm.bias, affine.weight, affine.bias
