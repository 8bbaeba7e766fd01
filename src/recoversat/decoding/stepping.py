"""What decoding knows of a model: something that takes a step.

B sentences (or hypotheses), K segments, n alternatives.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

FREE = -1  # in an array of forced tokens: the model chooses


class Choice(NamedTuple):
    """The tokens of one step, and on request the best n of each segment, best first."""

    tokens: Ints  # (B, K)
    log_probs: Floats  # (B, K)
    best_tokens: Ints | None = None  # (B, K, n)
    best_log_probs: Floats | None = None  # (B, K, n)


class Stepper(Protocol):
    """A batch of sentences being written; remembers their sources and the rows so far."""

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Append the row `tokens` (B, K) and choose the next token of each segment.

        Rows that are not `active` are never seen by others. Where `forced` is not FREE its token is
        taken instead of the best one. PAD, BOS and UNK are never chosen, DEL not where K = 1.
        Without `scores` a stepper may leave out log-probabilities, which take time, and put zeros.
        """

    def keep(self, which: Ints) -> None:
        """Keep only these members of the batch, in this order; one may be named several times."""
