"""Several rows of a sentence in one run of the step graph: to score a target, fill its places or verify a draft.

Where the graph has a length for each sentence while decoding, it also takes a mask that says, row by row, which rows
of the cache are seen.

B sentences, N rows of a run, R real rows of all sentences, M places of the cache, L decoder layers, H heads, D model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import FREE, Bools, Floats, Ints
from recoversat.decoding.verify import AHEAD, ALL
from recoversat.engines.onnx.stepper import Binding, layer_names
from recoversat.engines.pairs import side_by_side
from recoversat.engines.positions import Positions
from recoversat.segments import Rows, visible


@dataclass(frozen=True)
class ManyRows:
    """What goes through the graph in one run."""

    tokens: Ints  # (B, N)
    segments: Ints  # (B, N)
    steps: Ints  # (B, N)
    places: Ints  # (N,) where rows lie in the cache
    seen: Bools  # (B, N, M) which places a row sees
    real: Bools  # (B, N)


class RowRunner:
    """The step graph over encoded sources, with a cache of `room` places."""

    def __init__(
        self, session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, bias: Floats,
        room: int,
    ) -> None:  # fmt: skip
        """Take the sources' keys and values (2L, B, H, S, E), and what is added to logits (P,)."""
        self._binding, self._positions = Binding(session), positions
        self._cache: Floats = np.zeros((*memory.shape[:3], room, memory.shape[4]), dtype=np.float32)
        self._binding.inputs({"bias": bias, "memory_lengths": memory_lengths})
        self._binding.inputs(dict(zip(layer_names("memory_", len(memory) // 2), memory, strict=True)))
        self._binding.in_place(layer_names("", len(memory) // 2), self._cache)

    def run(self, given: ManyRows, wanted: Ints, scores: bool = True) -> tuple[Ints, Floats]:
        """Return each real row's token (R,), the one that is wanted or, where that is FREE, the best; and its score."""
        return self._run(given, wanted, scores, 0)[:2]

    def _run(self, given: ManyRows, wanted: Ints, scores: bool, n_best: int) -> tuple[Ints, Floats, Ints, Floats]:
        """Do as `run`; also return the best token of each row and its score, if asked for one (n_best = 1)."""
        (batch, width), heads, n_rows = given.steps.shape, self._cache.shape[2], len(wanted)
        places: Ints = np.empty((batch, width, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
        places[..., 0] = np.arange(batch)[:, None, None]
        places[..., 1], places[..., 2] = np.arange(heads), given.places[:, None]
        self._binding.inputs({
            "tokens": given.tokens,
            "segments": given.segments,
            "position": self._positions.first(int(given.steps.max()) + 1)[given.steps],  # (B, N, D)
            "places": places,
            "lengths": given.seen.astype(np.int32),
            "rows": np.flatnonzero(given.real),
            "wanted": wanted[:, None],
            "scored": np.array([scores]),
            "n_best": np.array([n_best]),
        })  # fmt: skip
        chosen: Ints = np.empty((n_rows, 1), dtype=np.int64)
        log_probs: Floats = np.empty((n_rows, 1) if scores else (0, 0), dtype=np.float32)
        best: Ints = np.empty((n_rows if scores else 0, n_best), dtype=np.int64)
        likely = best.astype(np.float32)
        self._binding.outputs({"chosen": chosen, "log_probs": log_probs})
        self._binding.outputs({"best_tokens": best, "best_log_probs": likely})
        self._binding.run()
        return chosen[:, 0], log_probs.ravel(), best.ravel(), likely.ravel()


def score_rows(
    session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, bias: Floats,
    targets: Sequence[Rows],
) -> Floats:  # fmt: skip
    """Return the log-probability of every row's label (R,), target after target; memory is (2L, B, H, S, E).

    A row sees those of the same or an earlier step (Eq. 3). Nothing is in the cache before.
    """
    tokens, segments, steps = (
        side_by_side(column)
        for column in zip(*((target.tokens, target.segments, target.steps) for target in targets), strict=True)
    )
    width = steps.shape[1]
    real = np.arange(width) < np.array([len(target.labels) for target in targets])[:, None]
    seen = np.stack([visible(own, own) for own in steps]) & real[:, None, :]
    labels = np.concatenate([target.labels for target in targets])
    rows = ManyRows(tokens, segments, steps, np.arange(width), seen, real)
    return RowRunner(session, memory, memory_lengths, positions, bias, width).run(rows, labels)[1]


class OnnxVerifier(RowRunner):
    """One sentence as K = 1 writes it; rows that were forgotten stay in the cache until others take their places."""

    ahead, most = AHEAD, ALL
    _rows = 0

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        return self.run(self._append(tokens), np.full(len(tokens), FREE), scores)

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        _, given, best, likely = self._run(self._append(tokens), np.array([*tokens[1:], FREE]), True, 1)
        return best, likely, given[:-1]

    def _append(self, tokens: Sequence[int]) -> ManyRows:
        carried = np.array([tokens], dtype=np.int64)  # (1, N)
        at = np.arange(self._rows, self._rows + len(tokens))
        seen = (np.arange(self._cache.shape[3]) <= at[:, None])[None]
        self._rows += len(tokens)
        return ManyRows(carried, np.zeros_like(carried), at[None], at, seen, np.ones_like(carried, dtype=np.bool_))

    def forget(self, rows: int) -> None:
        self._rows = rows
