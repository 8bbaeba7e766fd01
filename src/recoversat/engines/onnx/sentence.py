"""Write one sentence with one run of a graph that holds its encoder and all its steps (`export/onnx_sentence.py`).

S source, K segments, T steps, R rows of all steps, D model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.onnx.shortlist import Vocabulary, note_scores
from recoversat.engines.positions import Positions
from recoversat.vocab import BOS, PAD

SENTENCE = "sentence.onnx"


class SentenceGraph:
    """A session that writes whole sentences, one at a time."""

    def __init__(self, session: Any, positions: Positions) -> None:
        self._session, self._positions = session, positions
        self._is_listed = "pieces" in {value.name for value in session.get_inputs()}

    def write(
        self, source: Sequence[int], steps: Ints, vocabulary: Vocabulary, scores: bool, hidden: bool = False
    ) -> tuple[Decoded, Floats]:
        """Write segment k in at most steps[k] steps; return also rows of the last layer (R, D), none if not wanted."""
        shape = (1, len(steps))
        inputs = {
            "tokens": np.array([source], dtype=np.int64),
            "positions": self._positions.first(len(source))[None],
            "memory_lengths": np.array([len(source)], dtype=np.int32),
            "step_positions": self._positions.first(int(steps.max())),
            "first_tokens": np.full(shape, BOS),
            "first_segments": np.arange(len(steps))[None],
            "nothing": np.full(shape, PAD),
            "last_steps": steps[None] - 1,
            "scored": np.array([scores]),
            "n_best": np.zeros(1, dtype=np.int64),
        }
        if self._is_listed:
            inputs["pieces"] = vocabulary.pieces
        outputs = ["all_chosen", *["all_log_probs"] * scores, *["all_hidden"] * hidden]
        chosen, *rest = self._session.run(outputs, inputs | vocabulary.inputs)
        written = chosen[:, 0].T.tolist()  # K lists of T ids, PAD where a segment has ended
        segments = [[token for token in segment if token != PAD] for segment in written]
        decoded = Decoded(segments, [[] for _ in segments], len(chosen))
        if scores:
            note_scores(decoded, rest.pop(0))
        return decoded, rest[0] if hidden else np.empty((0, 0), dtype=np.float32)
