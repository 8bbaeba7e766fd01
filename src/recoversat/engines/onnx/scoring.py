"""Run all rows of a target through the step graph at once, to score it or to fill its places.

Where the graph has a length for each sentence while decoding, it also takes a mask that says, row by row, which rows
are seen: those of the same or an earlier step (Eq. 3). Nothing is in the cache before, and every row is new.

B pairs, N rows of the longest target, R rows of all targets, L decoder layers, H heads, D model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import Bools, Floats, Ints
from recoversat.engines.onnx.shortlist import Whole
from recoversat.engines.onnx.stepper import Binding, Positions, layer_names
from recoversat.engines.pairs import side_by_side
from recoversat.segments import Rows, visible


def takes_masks(session: Any) -> bool:
    """Say whether a step graph lets rows differ in what they see; older exports know lengths only."""
    return not next(value.shape for value in session.get_inputs() if value.name == "lengths")


def score_rows(
    session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, vocabulary: Whole,
    targets: Sequence[Rows],
) -> Floats:  # fmt: skip
    """Return the log-probability of every row's label (R,), target after target; memory is (2L, B, H, S, E)."""
    tokens, segments, steps = (
        side_by_side(column)
        for column in zip(*((target.tokens, target.segments, target.steps) for target in targets), strict=True)
    )
    real = np.arange(steps.shape[1]) < np.array([len(target.labels) for target in targets])[:, None]
    seen = np.stack([visible(own, own) for own in steps])
    labels = np.concatenate([target.labels for target in targets])
    rows = AllRows(tokens, segments, steps, seen, real)
    return run_rows(session, memory, memory_lengths, positions, vocabulary, rows, labels)[1]


@dataclass(frozen=True)
class AllRows:
    """What goes through the graph in one run: (B, N) each but for `seen`, (B, N, N)."""

    tokens: Ints
    segments: Ints
    steps: Ints
    seen: Bools  # which rows a row sees, those that are not real aside
    real: Bools


def run_rows(
    session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, vocabulary: Whole,
    given: AllRows, wanted: Ints,
) -> tuple[Ints, Floats]:  # fmt: skip
    """Return each real row's token (R,), the one that is wanted or, where that is FREE, the best; and its score."""
    (batch, width), heads = given.steps.shape, memory.shape[2]
    places: Ints = np.empty((batch, width, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
    places[..., 0] = np.arange(batch)[:, None, None]
    places[..., 1], places[..., 2] = np.arange(heads), np.arange(width)[:, None]
    labels = wanted[:, None]  # (R, 1)
    binding = Binding(session)
    binding.inputs(vocabulary.inputs)
    binding.inputs({
        "tokens": given.tokens,
        "segments": given.segments,
        "position": positions.first(int(given.steps.max()) + 1)[given.steps],  # (B, N, D)
        "places": places,
        "lengths": (given.seen & given.real[:, None, :]).astype(np.int32),
        "memory_lengths": memory_lengths,
        "rows": np.flatnonzero(given.real),
        "wanted": labels,
        "scored": np.ones(1, dtype=np.bool_),
        "n_best": np.zeros(1, dtype=np.int64),
    })  # fmt: skip
    binding.inputs(dict(zip(layer_names("memory_", len(memory) // 2), memory, strict=True)))
    cache: Floats = np.zeros((*memory.shape[:3], width, memory.shape[4]), dtype=np.float32)
    binding.in_place(layer_names("", len(cache) // 2), cache)
    log_probs: Floats = np.empty(labels.shape, dtype=np.float32)
    none: Ints = np.empty((len(labels), 0), dtype=np.int64)
    chosen = np.empty_like(labels)
    binding.outputs({"chosen": chosen, "log_probs": log_probs})
    binding.outputs({"best_tokens": none, "best_log_probs": none.astype(np.float32)})
    binding.run()
    return chosen[:, 0], log_probs[:, 0]
