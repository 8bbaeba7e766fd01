"""A model over static buffers: its weights, room for what it writes, and who computes.

B sentences, S source, K rows a sentence and step, R = B * K, M cache rows, D model, H heads, E head, L decoder layers.
"""

from weakref import WeakValueDictionary

import torch
from torch import Tensor

from recoversat.engines.cuda.layers import Find, Layers, ManyRows, logits
from recoversat.engines.cuda.ops import Ops
from recoversat.engines.cuda.state import Encoded
from recoversat.engines.cuda.weights import Weights

_TOGETHER = 4  # steps that one graph takes, where nobody asks for what was written between them


class GraphModel:
    """A Transformer whose tensors all have fixed places; nothing here waits for the device or asks it anything."""

    def __init__(self, weights: Weights, ops: Ops, find_few_rows: Find = lambda *sizes: None) -> None:
        self.weights, self.ops, self.most_together = weights, ops, _TOGETHER
        self._many, self._find_few_rows = ManyRows(weights, ops), find_few_rows
        sizes = weights.sizes
        self._heads = (sizes.n_heads, sizes.head)
        self._encoded: WeakValueDictionary[tuple[int, int], Encoded] = WeakValueDictionary()
        # (V,) what may not begin a segment, where not everything may
        self.barred = torch.zeros(sizes.vocab, dtype=torch.bool, device=weights.device)

    def encoded(self, batch: int, length: int) -> Encoded:
        """Return the room for so many sources of such a length: all who ask for it share it, and keep it alive."""
        w = self.weights
        found = self._encoded.get((batch, length))
        if found is None:
            shape = (batch, length, len(w.decoder), 2, *self._heads)
            found = Encoded(torch.zeros(shape, dtype=w.dtype, device=w.device))
            self._encoded[batch, length] = found
        return found

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

    def layers(self, batch: int, n_rows: int, length: int) -> Layers:
        """Return what computes steps of so many sentences, rows a sentence and source tokens."""
        return self._find_few_rows(batch, n_rows, length) or self._many

    def logits(self, hidden: Tensor, single: bool) -> Tensor:
        """(R, D) -> (R, V), -inf for what is never written; `single`: no sentence has anything to delete."""
        return logits(self.weights, hidden, single)
