"""Encoder and decoder step over static buffers, written with as few kernels as torch allows.

B sentences, S source, K rows a sentence and step, R = B * K, M cache rows, D model, H heads, E head, L decoder layers.
"""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.engines.cuda.layers import MOST_ROWS, MOST_SENTENCES, ManyRows, StepLayers, attend, linear
from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import Memory, Rows
from recoversat.engines.cuda.weights import Weights


class GraphModel:
    """A Transformer whose tensors all have fixed places; nothing here waits for the device or asks it anything."""

    def __init__(self, weights: Weights, ops: Ops, few_rows: StepLayers | None = None) -> None:
        self.weights, self.ops = weights, ops
        self._many, self.few_rows = ManyRows(weights, ops), few_rows
        sizes = weights.sizes
        self._heads = (sizes.n_heads, sizes.head)
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
            qkv = linear(self.ops.add_norm(x, y, attention.norm), attention.inputs)
            query, key, value = qkv.view(batch, length, 3, *self._heads).unbind(2)
            y = linear(attend(query, key, value, mask, w.sizes), attention.output)
            x, inner = self._many.feed(x, y, feed)
            y = linear(inner, feed.output)
        hidden = self.ops.add_norm(x, y, w.encoder_norm)
        torch.addmm(w.memory.bias, hidden, w.memory.weight.t(), out=memory.keys_values.view(batch * length, -1))

    def step(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        """Append one row for each of `tokens` (R,) and return hidden states (R, D); attention spans `n_seen` places."""
        w, layers = self.weights, self.layers(memory.mask.shape[0], len(rows.newest))
        x, y = layers.embed(tokens, rows)
        for number, (attention, cross, feed) in enumerate(w.decoder):
            x, seen = layers.attend_rows(x, y, attention, rows, number, n_seen)
            y = layers.project(seen, attention.output)
            x, seen = layers.attend_source(x, y, cross, memory, number)
            y = layers.project(seen, cross.output)
            x, inner = layers.feed(x, y, feed)
            y = layers.project(inner, feed.output)
        return self.ops.add_norm(x, y, w.decoder_norm)

    def layers(self, batch: int, n_rows: int) -> StepLayers:
        """Return what computes a step of so many sentences and rows a sentence."""
        return self.few_rows if self.few_rows and n_rows <= MOST_ROWS and batch <= MOST_SENTENCES else self._many

    def logits(self, hidden: Tensor, single: bool) -> Tensor:
        """(R, D) -> (R, V), -inf for what is never written; `single`: no sentence has anything to delete."""
        output = self.weights.vocabulary
        return F.linear(hidden, output.weight, self.weights.single_bias if single else output.bias)
