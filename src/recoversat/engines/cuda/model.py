"""Encoder and decoder step over static buffers, written with as few kernels as torch allows.

B sentences, S source, K rows a sentence and step, R = B * K, M cache rows, D model, H heads, E head, L decoder layers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.weights import Affine, Block, Weights


@dataclass(frozen=True)
class Memory:
    """The source as decoder layers see it."""

    keys_values: Tensor  # (B, S, L, 2, H, E)
    mask: Tensor  # (B, S) 0 where a source token is, -inf on padding


@dataclass(frozen=True)
class Rows:
    """Rows written so far; the newest of a step go to the places `newest`."""

    caches: list[Tensor]  # L of (B, M, 2, H, E)
    positions: Tensor  # (M, D)
    newest: Tensor  # (K,)
    mask: Tensor  # (B, 1 or K, at least M) 0 where a row is seen, -inf elsewhere


class GraphModel:
    """A Transformer whose tensors all have fixed places; nothing here waits for the device or asks it anything."""

    def __init__(self, weights: Weights, ops: Ops) -> None:
        self.weights, self.ops = weights, ops
        sizes = weights.sizes
        self._heads = (sizes.n_heads, sizes.head)
        self._scale = sizes.head_true**-0.5
        # (V,) what may not begin a segment, where not everything may
        self.barred = torch.zeros(sizes.vocab, dtype=torch.bool, device=weights.device)

    def new_memory(self, batch: int, length: int, mask: Tensor) -> Memory:
        """Make room for encoded sources."""
        w = self.weights
        shape = (batch, length, len(w.decoder), 2, *self._heads)
        return Memory(torch.zeros(shape, dtype=w.dtype, device=w.device), mask)

    def new_caches(self, batch: int, rows: int) -> list[Tensor]:
        """Make room for the rows of every decoder layer."""
        w = self.weights
        shape = (batch, rows, 2, *self._heads)
        return [torch.zeros(shape, dtype=w.dtype, device=w.device) for _ in w.decoder]

    def session_bytes(self, batch: int, length: int, rows: int) -> int:
        """Estimate what memory and caches of a batch take."""
        w = self.weights
        return batch * (length + rows) * len(w.decoder) * 2 * w.sizes.heads * w.dtype.itemsize

    def step_bytes(self, n_rows: int) -> int:
        """Estimate what scores over the vocabulary take for a moment, in the model's precision and in float32."""
        return n_rows * self.weights.sizes.vocab * (self.weights.dtype.itemsize + 4)

    def encode(self, src: Tensor, positions: Tensor, memory: Memory) -> None:
        """Encode sources (B, S) and project them for every decoder layer."""
        w, (batch, length) = self.weights, src.shape
        mask = memory.mask[:, None, None, :]
        x, y = F.embedding(src.view(-1), w.embedding), positions
        for attention, feed in w.encoder:
            qkv = _linear(self.ops.add_norm(x, y, attention.norm), attention.inputs)
            query, key, value = qkv.view(batch, length, 3, *self._heads).unbind(2)
            y = self._attend(query, key, value, mask, attention.output)
            y = self._feed(self.ops.add_norm(x, y, feed.norm), feed)
        hidden = self.ops.add_norm(x, y, w.encoder_norm)
        torch.addmm(w.memory.bias, hidden, w.memory.weight.t(), out=memory.keys_values.view(batch * length, -1))

    def step(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        """Append one row for each of `tokens` (R,) and return hidden states (R, D); attention spans `n_seen` places."""
        w, batch = self.weights, memory.mask.shape[0]
        row_mask, source_mask = rows.mask[:, None, :, :n_seen], memory.mask[:, None, None, :]
        x, y = F.embedding(tokens, w.embedding), rows.positions.index_select(0, rows.newest)
        for number, ((attention, cross, feed), cache) in enumerate(zip(w.decoder, rows.caches, strict=True)):
            qkv = _linear(self.ops.add_norm(x, y, attention.norm), attention.inputs)
            qkv = qkv.view(batch, -1, 3, *self._heads)
            cache.index_copy_(1, rows.newest, qkv[:, :, 1:])
            seen = cache[:, :n_seen]
            y = self._attend(qkv[:, :, 0], seen[:, :, 0], seen[:, :, 1], row_mask, attention.output)
            y = self._cross(self.ops.add_norm(x, y, cross.norm), memory, number, source_mask, cross)
            y = self._feed(self.ops.add_norm(x, y, feed.norm), feed)
        return self.ops.add_norm(x, y, w.decoder_norm)

    def logits(self, hidden: Tensor, single: bool) -> Tensor:
        """(R, D) -> (R, V), -inf for what is never written; `single`: no sentence has anything to delete."""
        output = self.weights.vocabulary
        return F.linear(hidden, output.weight, self.weights.single_bias if single else output.bias)

    def _cross(self, normed: Tensor, memory: Memory, layer: int, mask: Tensor, block: Block) -> Tensor:
        keys, values = memory.keys_values[:, :, layer].unbind(2)
        query = _linear(normed, block.inputs).view(mask.shape[0], -1, *self._heads)
        return self._attend(query, keys, values, mask, block.output)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, output: Affine) -> Tensor:
        """Mix values (B, M, H, E) by attention of queries (B, K, H, E) and project the result to (R, D)."""
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask, scale=self._scale
        )
        return _linear(mixed.transpose(1, 2).reshape(-1, self.weights.sizes.heads), output)

    def _feed(self, normed: Tensor, block: Block) -> Tensor:
        inner = block.inputs
        hidden = torch._addmm_activation(inner.bias, normed, inner.weight.t())  # its ReLU costs no kernel of its own
        return _linear(hidden, block.output)


def _linear(x: Tensor, affine: Affine) -> Tensor:
    return F.linear(x, affine.weight, affine.bias)
