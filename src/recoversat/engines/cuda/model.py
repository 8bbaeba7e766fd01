"""Encoder and decoder step over static buffers.

B sentences, S source, K rows a sentence and step, R = B * K, M cache rows, D model, H heads, E head, L decoder layers.
"""

import torch
from torch import Tensor

from recoversat.engines.cuda.layers import MOST_SENTENCES, Layers, ManyRows, logits
from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import Memory, Rows, SegmentState
from recoversat.engines.cuda.weights import Weights

_TOGETHER = 4  # steps that one graph takes, where nobody asks for what was written between them


class GraphModel:
    """A Transformer whose tensors all have fixed places; nothing here waits for the device or asks it anything."""

    def __init__(self, weights: Weights, ops: Ops, few_rows: Layers | None = None) -> None:
        self.weights, self.ops = weights, ops
        self._many, self.few_rows, self.most_together = ManyRows(weights, ops), few_rows, _TOGETHER
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
        self.layers(len(src), 1).encode(src, positions, memory)

    def step(self, tokens: Tensor, rows: Rows, n_seen: int, memory: Memory) -> Tensor:
        """Append one row for each of `tokens` (R,) and return hidden states (R, D); attention spans `n_seen` places."""
        return self.layers(len(memory.mask), len(rows.newest)).hidden(tokens, rows, n_seen, memory)

    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        """Append one row for each of the newest tokens, choose the next, and make the state that of the next step."""
        self.layers(len(memory.mask), len(rows.newest)).write(state, rows, n_seen, memory)

    def layers(self, batch: int, n_rows: int) -> Layers:
        """Return what computes a step of so many sentences and rows a sentence."""
        few = self.few_rows
        return few if few and n_rows <= few.most_rows and batch <= MOST_SENTENCES else self._many

    def logits(self, hidden: Tensor, single: bool) -> Tensor:
        """(R, D) -> (R, V), -inf for what is never written; `single`: no sentence has anything to delete."""
        return logits(self.weights, hidden, single)
