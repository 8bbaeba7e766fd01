"""Encoder and decoder with torch's kernels, for any number of rows; those for few rows put others in their place.

B sentences, S source, K rows a sentence and step, R = B * K, M cache rows, D model, H heads, E head.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.engines.cuda.ops import Ops, where_they_work
from recoversat.engines.cuda.state import SEEN, Memory, Rows, SegmentState, rung
from recoversat.engines.cuda.weights import Affine, Block, Sizes, Weights

_ROWS, _LENGTHS = (16, 32), (16, 32, 64)  # a sentence's rows in a step and source tokens that the same kernels serve


class Layers(Protocol):
    """All that lies between tokens and the next tokens."""

    most_rows: int  # that a sentence may have in a step
    ladder: Sequence[int]  # numbers of cache rows for which it is worth capturing a step of its own
    goes_ahead: bool  # whether the next step of a sentence is best taken while the host asks if it has ended

    def compile(self, work: Callable[[], object]) -> None:
        """Compile what `work` takes, where that is faster before it is done; what it leaves behind is of no use."""

    def encode(self, src: Tensor, positions: Tensor, memory: Memory) -> None:
        """Encode sources (B, S) and project them for every decoder layer."""

    def hidden(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        """Append one row for each of `tokens` (R,) and return hidden states (R, D); attention spans `n_seen` places."""

    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        """Append one row for each of the newest tokens, choose the next, and make the state that of the next step."""


class ManyRows:
    """Torch's kernels, the norms, sums and choices as `ops` does them.

    Between two products x is the sum so far (post-norm: normalised) and y what is added to it next, both (R, D).
    """

    most_rows = 1 << 30
    ladder: Sequence[int] = SEEN
    goes_ahead = False

    def __init__(self, weights: Weights, ops: Ops) -> None:
        self._weights, self._ops = weights, ops
        self._heads = (weights.sizes.n_heads, weights.sizes.head)

    def compile(self, work: Callable[[], object]) -> None:
        pass  # torch's kernels are compiled

    def encode(self, src: Tensor, positions: Tensor, memory: Memory) -> None:
        w, (batch, length) = self._weights, src.shape
        mask = memory.mask[:, None, None, :]
        x, y = F.embedding(src.view(-1), w.embedding), positions
        for attention, feed in w.encoder:
            x, normed = self._add(x, y, attention)
            qkv = linear(normed, attention.inputs)
            query, key, value = qkv.view(batch, length, 3, *self._heads).unbind(2)
            y = linear(attend(query, key, value, mask, w.sizes), attention.output)
            x, normed = self._add(x, y, feed)
            y = linear(self._inner(normed, feed.inputs), feed.output)
        hidden = self._ops.add_norm(x, y, w.encoder_norm)
        torch.addmm(w.memory.bias, hidden, w.memory.weight.t(), out=memory.keys_values.view(batch * length, -1))

    def hidden(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        w, (x, y) = self._weights, self.embed(tokens, rows)
        for number, (attention, cross, feed) in enumerate(w.decoder):
            x, seen = self.attend_rows(x, y, attention, rows, number, n_seen)
            x, seen = self.attend_source(x, self.project(seen, attention.output), cross, memory, number)
            x, inner = self.feed(x, self.project(seen, cross.output), feed)
            y = self.project(inner, feed.output)
        return self._ops.add_norm(x, y, w.decoder_norm)

    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        hidden = self.hidden(state.tokens, rows, n_seen, memory)
        self._ops.choose(logits(self._weights, hidden, single=state.n_segments == 1), state)

    def embed(self, tokens: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the first x and y: embeddings, and positions of the newest rows."""
        return F.embedding(tokens, self._weights.embedding), rows.positions.index_select(0, rows.newest)

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        """Return the next x, and what its rows see in the first `n_seen` rows of the cache, own ones too (R, H * E)."""
        cache = rows.caches[layer]
        n_seen = min(rung(n_seen, SEEN), cache.shape[1])
        x, normed = self._add(x, y, block)
        qkv = linear(normed, block.inputs).view(len(cache), -1, 3, *self._heads)
        cache.index_copy_(1, rows.newest, qkv[:, :, 1:])
        keys, values = cache[:, :n_seen].unbind(2)
        return x, attend(qkv[:, :, 0], keys, values, rows.mask[:, None, :, :n_seen], self._weights.sizes)

    def attend_source(self, x: Tensor, y: Tensor, block: Block, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """Return the next x, and what its rows see in the source (R, H * E)."""
        x, normed = self._add(x, y, block)
        query = linear(normed, block.inputs).view(len(memory.mask), -1, *self._heads)
        keys, values = memory.keys_values[:, :, layer].unbind(2)
        return x, attend(query, keys, values, memory.mask[:, None, None, :], self._weights.sizes)

    def feed(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Return the next x, and the inner units of a feed-forward layer."""
        x, normed = self._add(x, y, block)
        return x, self._inner(normed, block.inputs)

    def project(self, x: Tensor, affine: Affine) -> Tensor:
        """Return the product that ends a block: the next y."""
        return linear(x, affine)

    def _add(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Return the next x and a block's input: x + y and its norm, or post-norm the norm of x + y as both."""
        if block.input_norm is None:
            x.view(-1, *y.shape).add_(y)
            return x, x
        normed = self._ops.add_norm(x, y, block.norm)
        return (normed if self._weights.sizes.post_norm else x), normed

    def _inner(self, x: Tensor, inputs: Affine) -> Tensor:
        if self._weights.sizes.swish:
            return F.silu(linear(x, inputs))
        return torch._addmm_activation(inputs.bias, x, inputs.weight.t())  # its ReLU costs no kernel of its own


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, sizes: Sizes) -> Tensor:
    """Mix values (B, M, H, E) by attention of queries (B, K, H, E); the result is (R, H * E)."""
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask, scale=sizes.head_true**-0.5
    )
    return mixed.transpose(1, 2).reshape(-1, sizes.heads)


def linear(x: Tensor, affine: Affine) -> Tensor:
    return F.linear(x, affine.weight, affine.bias)


def logits(weights: Weights, hidden: Tensor, single: bool) -> Tensor:
    """(R, D) -> (R, V), -inf for what is never written; `single`: no sentence has anything to delete."""
    output = weights.vocabulary
    return F.linear(hidden, output.weight, weights.single_bias if single else output.bias)


Make = Callable[[Weights], Layers | None]
Find = Callable[[int, int, int], Layers | None]


class FewRowsFinder:
    """Finds kernels for few rows: of those that are wanted (None: on a GPU) and fit, the first that are found right.

    They are compiled and checked when they are first asked for: who translates many sentences at a time never asks.
    """

    def __init__(
        self, weights: Weights, ops: Ops, check: Callable[[Make, int, int], None], wanted: bool | None
    ) -> None:
        self._weights, self._check, self._wanted = weights, check, wanted
        ways = (1, "kernels that overlap", _overlapping), (4, "kernels for few rows", _few_rows)
        self._kinds: dict[str, tuple[int, Make]] = {  # for how many sentences; what is fastest first
            f"{name}{', begun early' * early}": (most, partial(make, ops=ops, early=early))
            for most, name, make in ways
            for early in (True, False)
        }
        self._made: dict[str, Layers | None] = {}
        self._found: dict[tuple[str, int, int], Layers | None] = {}

    def find(self, batch: int, n_rows: int, length: int) -> Layers | None:
        """Return kernels for so many sentences, rows a sentence in a step and source tokens; None: torch's are best."""
        if n_rows > _ROWS[-1]:
            return None
        sizes = rung(n_rows, _ROWS), min(rung(length, _LENGTHS), 2 * _LENGTHS[-1])
        some = (self._checked(name, *sizes) for name, (most, _) in self._kinds.items() if batch <= most)
        return next((layers for layers in some if layers), None)

    def _checked(self, *key: *tuple[str, int, int]) -> Layers | None:
        if key not in self._found:
            work = partial(self._make, *key)
            self._found[key] = where_they_work(key[0], work, self._weights.device, self._wanted)
        return self._found[key]

    def _make(self, name: str, n_rows: int, length: int) -> Layers | None:
        make = self._kinds[name][1]
        if name not in self._made:
            self._made[name] = make(self._weights)
        layers = self._made[name]
        if layers is None or n_rows > layers.most_rows:
            return None
        self._check(make, n_rows, length)
        return layers


def _overlapping(weights: Weights, ops: Ops, early: bool) -> Layers | None:
    from recoversat.engines.cuda.overlapping import Overlapping

    return Overlapping(weights, ops, early) if Overlapping.fits(weights) else None


def _few_rows(weights: Weights, ops: Ops, early: bool) -> Layers | None:
    from recoversat.engines.cuda.few_rows import FewRows

    return FewRows(weights, ops, early) if FewRows.fits(weights) else None
