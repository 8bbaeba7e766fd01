"""Verify a draft with runs of the step graph: several rows of one segment at once, after those in the cache.

N rows of this run, M places of the cache, L decoder layers, H heads, E = D / H, D model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import FREE, Floats, Ints
from recoversat.decoding.verify import AHEAD
from recoversat.engines.onnx.shortlist import Vocabulary
from recoversat.engines.onnx.stepper import Binding, Positions, layer_names


class OnnxVerifier:
    """One sentence as K = 1 writes it; rows that were forgotten stay in the cache until others take their places."""

    ahead = AHEAD

    def __init__(
        self, session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions,
        vocabulary: Vocabulary, room: int,
    ) -> None:  # fmt: skip
        """Take the source's keys and values (2L, 1, H, S, E), and how many rows there may be."""
        self._binding, self._positions, self._rows = Binding(session), positions, 0
        self._cache: Floats = np.zeros((*memory.shape[:3], room, memory.shape[4]), dtype=np.float32)
        self._vocabulary = vocabulary
        self._binding.inputs(vocabulary.inputs)
        self._binding.inputs({"memory_lengths": memory_lengths, "n_best": np.zeros(1, dtype=np.int64)})
        self._binding.inputs(dict(zip(layer_names("memory_", len(memory) // 2), memory, strict=True)))
        self._binding.in_place(layer_names("", len(memory) // 2), self._cache)

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        """Run a row for each token; each sees those before it."""
        n, (_, _, heads, room, _) = len(tokens), self._cache.shape
        at = np.arange(self._rows, self._rows + n)
        places: Ints = np.zeros((1, n, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
        places[..., 1], places[..., 2] = np.arange(heads), at[:, None]
        self._binding.inputs({
            "tokens": np.array([tokens], dtype=np.int64),
            "segments": np.zeros((1, n), dtype=np.int64),
            "position": np.ascontiguousarray(self._positions.first(self._rows + n)[None, self._rows :]),
            "places": places,
            "lengths": (np.arange(room) <= at[:, None]).astype(np.int32)[None],  # (1, N, M): which rows are seen
            "rows": np.arange(n),
            "wanted": np.full((n, 1), FREE),
            "scored": np.array([scores]),
        })  # fmt: skip
        chosen: Ints = np.empty((n, 1), dtype=np.int64)
        log_probs: Floats = np.empty((n, 1) if scores else (0, 0), dtype=np.float32)
        none: Ints = np.empty((n if scores else 0, 0), dtype=np.int64)
        self._binding.outputs({"chosen": chosen, "log_probs": log_probs})
        self._binding.outputs({"best_tokens": none, "best_log_probs": none.astype(np.float32)})
        self._binding.run()
        self._rows += n
        return self._vocabulary.ids(chosen[:, 0]), log_probs.ravel()

    def forget(self, rows: int) -> None:
        """Keep the first rows."""
        self._rows = rows
