"""One batch decoded as several smaller ones, for engines that bound their memory, must not mix sentences, or have
several threads.

B sentences, K segments, n alternatives.
"""

from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np

from recoversat.decoding.stepping import Bools, Choice, Floats, Ints, Stepper
from recoversat.vocab import PAD


class SplitStepper:
    """Steppers that together hold one batch; to the outside they are one."""

    def __init__(self, parts: Sequence[tuple[Stepper, Ints]], pool: Executor | None = None) -> None:
        """Take steppers, each with the places of the batch it holds; a pool lets them step side by side."""
        self._parts = list(parts)
        self._pool = pool

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Let each part that still writes take a step, and put the choices together."""
        chosen = np.full(tokens.shape, PAD, dtype=np.int64)
        log_probs: Floats = np.zeros(tokens.shape, dtype=np.float32)
        best_tokens: Ints = np.zeros((*tokens.shape, n_best), dtype=np.int64)
        best_log_probs: Floats = np.full((*tokens.shape, n_best), -np.inf, dtype=np.float32)

        def step(part: tuple[Stepper, Ints]) -> Choice:
            stepper, places = part
            wanted = None if forced is None else forced[places]
            return stepper.step(tokens[places], active[places], wanted, n_best, scores)

        parts = [part for part in self._parts if len(part[1])]
        for (_, places), choice in zip(parts, (self._pool.map if self._pool else map)(step, parts), strict=True):
            chosen[places], log_probs[places] = choice.tokens, choice.log_probs
            if choice.best_tokens is not None and choice.best_log_probs is not None:
                best_tokens[places], best_log_probs[places] = choice.best_tokens, choice.best_log_probs
        if not n_best:
            return Choice(chosen, log_probs)
        return Choice(chosen, log_probs, best_tokens, best_log_probs)

    def keep(self, which: Ints) -> None:
        """Tell each part which of its own members stay, in the order of the new batch."""
        which = np.asarray(which)
        for index, (stepper, places) in enumerate(self._parts):
            inside = np.full(int(max(which.max(initial=0), places.max(initial=0))) + 1, -1)
            inside[places] = np.arange(len(places))
            mine = np.flatnonzero(inside[which] >= 0)
            if len(mine):
                stepper.keep(inside[which[mine]])
            self._parts[index] = (stepper, mine)
