"""Score given targets with one run of the step graph: all rows of a target at once instead of a step at a time.

Where the graph has a length for each sentence while decoding, it also takes a mask that says, row by row, which rows
are seen: those of the same or an earlier step (Eq. 3). Nothing is in the cache before, and every row is new.

B pairs, N rows of the longest target, R rows of all targets, L decoder layers, H heads, D model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import Floats, Ints
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
    counts = np.array([len(target.labels) for target in targets])
    width, heads = int(counts.max()), memory.shape[2]
    real = np.arange(width) < counts[:, None]  # (B, N)
    steps = side_by_side([target.steps for target in targets])
    seen = np.stack([visible(own, own) for own in steps]) & real[:, None, :]  # (B, N, N)
    places: Ints = np.empty((*steps.shape, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
    places[..., 0] = np.arange(len(targets))[:, None, None]
    places[..., 1], places[..., 2] = np.arange(heads), np.arange(width)[:, None]
    labels = np.concatenate([target.labels for target in targets])[:, None]  # (R, 1)
    binding = Binding(session)
    binding.inputs(vocabulary.inputs)
    binding.inputs({
        "tokens": side_by_side([target.tokens for target in targets]),
        "segments": side_by_side([target.segments for target in targets]),
        "position": positions.first(int(steps.max()) + 1)[steps],  # (B, N, D)
        "places": places,
        "lengths": seen.astype(np.int32),
        "memory_lengths": memory_lengths,
        "rows": np.flatnonzero(real),
        "wanted": labels,
        "scored": np.ones(1, dtype=np.bool_),
        "n_best": np.zeros(1, dtype=np.int64),
    })  # fmt: skip
    binding.inputs(dict(zip(layer_names("memory_", len(memory) // 2), memory, strict=True)))
    cache: Floats = np.zeros((*memory.shape[:3], width, memory.shape[4]), dtype=np.float32)
    binding.in_place(layer_names("", len(cache) // 2), cache)
    log_probs: Floats = np.empty(labels.shape, dtype=np.float32)
    none: Ints = np.empty((len(labels), 0), dtype=np.int64)
    binding.outputs({"chosen": np.empty_like(labels), "log_probs": log_probs})
    binding.outputs({"best_tokens": none, "best_log_probs": none.astype(np.float32)})
    binding.run()
    return log_probs[:, 0]
