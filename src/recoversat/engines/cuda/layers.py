"""What a decoder step does between two products: with torch's kernels, for any number of rows.

B sentences, S source, K rows a sentence and step, R = B * K, M cache rows, D model, H heads, E head.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.engines.cuda.ops import Ops, where_they_work
from recoversat.engines.cuda.state import Memory, Rows
from recoversat.engines.cuda.weights import Affine, Block, Sizes, Weights

MOST_ROWS, MOST_SENTENCES = 32, 4  # that kernels for few rows are given: rows a sentence, sentences


class StepLayers(Protocol):
    """A decoder layer but for its products: x is the sum so far, y what is added to it next, both (R, D)."""

    def embed(self, tokens: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the first x and y: embeddings, and positions of the newest rows."""

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        """Return x + y, and what its rows see in the first `n_seen` rows of the cache (R, H * E), their own too."""

    def attend_source(self, x: Tensor, y: Tensor, block: Block, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        """Return x + y, and what its rows see in the source (R, H * E)."""

    def feed(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        """Return x + y, and the inner units of a feed-forward layer."""

    def project(self, x: Tensor, affine: Affine) -> Tensor:
        """Return the product that ends a block: the next y."""


class ManyRows:
    """Torch's kernels, the norms and sums as `ops` does them."""

    def __init__(self, weights: Weights, ops: Ops) -> None:
        self._weights, self._ops = weights, ops
        self._heads = (weights.sizes.n_heads, weights.sizes.head)

    def embed(self, tokens: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        return F.embedding(tokens, self._weights.embedding), rows.positions.index_select(0, rows.newest)

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        cache = rows.caches[layer]
        qkv = linear(self._ops.add_norm(x, y, block.norm), block.inputs).view(len(cache), -1, 3, *self._heads)
        cache.index_copy_(1, rows.newest, qkv[:, :, 1:])
        keys, values = cache[:, :n_seen].unbind(2)
        return x, attend(qkv[:, :, 0], keys, values, rows.mask[:, None, :, :n_seen], self._weights.sizes)

    def attend_source(self, x: Tensor, y: Tensor, block: Block, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        query = linear(self._ops.add_norm(x, y, block.norm), block.inputs).view(len(memory.mask), -1, *self._heads)
        keys, values = memory.keys_values[:, :, layer].unbind(2)
        return x, attend(query, keys, values, memory.mask[:, None, None, :], self._weights.sizes)

    def feed(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        inner, normed = block.inputs, self._ops.add_norm(x, y, block.norm)
        return x, torch._addmm_activation(inner.bias, normed, inner.weight.t())  # its ReLU costs no kernel of its own

    def project(self, x: Tensor, affine: Affine) -> Tensor:
        return linear(x, affine)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, sizes: Sizes) -> Tensor:
    """Mix values (B, M, H, E) by attention of queries (B, K, H, E); the result is (R, H * E)."""
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask, scale=sizes.head_true**-0.5
    )
    return mixed.transpose(1, 2).reshape(-1, sizes.heads)


def linear(x: Tensor, affine: Affine) -> Tensor:
    return F.linear(x, affine.weight, affine.bias)


def find_few_rows(weights: Weights, check: Callable[[StepLayers], None], wanted: bool | None) -> StepLayers | None:
    """Return kernels for few rows, where they are wanted (None: on a GPU), fit the sizes and are found right."""

    def few_rows() -> StepLayers | None:
        from recoversat.engines.cuda.few_rows import FewRows

        if not FewRows.fits(weights):
            return None
        found = FewRows(weights)
        check(found)
        return found

    return where_they_work("kernels for few rows", few_rows, weights.device, wanted)
