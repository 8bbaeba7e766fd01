"""Models that write all at once, by ONNX Runtime: the step graph, whose rows then all see each other. Imports no torch.

B sentences, S source, R translations to write, N positions of the longest, C length classes, P padded vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import FREE, Floats, Ints
from recoversat.engines.engine import Sources
from recoversat.engines.one_step import OneStepEngine
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.onnx.rows import ManyRows, RowRunner
from recoversat.engines.pairs import side_by_side
from recoversat.engines.positions import Positions
from recoversat.vocab import N_SPECIAL

_ROWS = 512  # that go through the graph at once


class OnnxOneStepEngine(OneStepEngine, OnnxEngine):
    """Fill places with the graphs that `export/onnx.py` wrote, on one core."""

    def open(self, sources: Sources) -> "OnnxFiller":
        tokens = side_by_side(sources)  # (B, S)
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        inputs = {"tokens": tokens, "positions": self._positions.first(tokens.shape[1])[None], "lengths": lengths}
        memory, *length_logits = self._graphs.encoder.run(None, inputs)
        bias: Floats = np.where(np.arange(len(self._bias)) < (self._config.vocab_size or 0), 0, -np.inf)
        return OnnxFiller(self._graphs.step, memory, lengths, length_logits, self._positions, bias.astype(np.float32))


@dataclass(frozen=True)
class OnnxFiller:
    """A batch of encoded sources; see `decoding.oneshot.Filler`."""

    session: Any
    memory: Floats  # (2L, B, H, S, E)
    src_lengths: NDArray[np.int32]
    length_logits: Sequence[Floats]  # (B, C), or none of a model that predicts no length
    positions: Positions
    bias: Floats  # (P,)

    def likeliest_lengths(self, n: int) -> Ints:
        (logits,) = self.length_logits
        classes = np.argsort(-logits, axis=1, kind="stable")[:, :n]
        return np.maximum(self.src_lengths[:, None] + classes - logits.shape[1] // 2, 1).astype(np.int64)

    def fill(self, members: Ints, tokens: Ints, lengths: Ints, least: int = N_SPECIAL) -> tuple[Ints, Floats]:
        """Take the likeliest token of every position, some translations at a time."""
        bias = self.bias.copy()
        bias[:least] = -np.inf
        chosen, log_probs = np.zeros_like(tokens), np.zeros(tokens.shape, dtype=np.float32)
        at_once = max(1, _ROWS // tokens.shape[1])
        for part in (slice(at, at + at_once) for at in range(0, len(members), at_once)):
            width = int(lengths[part].max())
            real = np.arange(width) < lengths[part, None]
            steps = np.broadcast_to(np.arange(width), real.shape)
            seen = np.ones((*real.shape, width), dtype=np.bool_) & real[:, None, :]
            carried = np.ascontiguousarray(tokens[part, :width])
            rows = ManyRows(carried, np.zeros_like(carried), steps, np.arange(width)[None], seen.astype(np.int32), real)
            memory, lengths_read = np.ascontiguousarray(self.memory[:, members[part]]), self.src_lengths[members[part]]
            runner = RowRunner(self.session, memory, lengths_read, self.positions, bias, width)
            found = runner.run(rows, np.full(int(real.sum()), FREE))
            chosen[part, :width][real], log_probs[part, :width][real] = found[:2]
        return chosen, log_probs
