"""Let a model write a fixed number of tokens: only what it chose is changed, so that segments end when they should."""

import numpy as np

from recoversat.decoding.stepping import Bools, Choice, Ints, Stepper
from recoversat.vocab import DEL, EOS, N_SPECIAL


class FixedStepper:
    """Replaces the ends that a stepper chose by those that are due."""

    def __init__(self, stepper: Stepper, lives: Ints) -> None:
        """Take, for each of K segments, after how many steps it ends."""
        self._stepper, self._lives, self._step = stepper, lives, 0

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        choice = self._stepper.step(tokens, active, forced, n_best, scores)
        self._step += 1
        due = (self._step >= self._lives[: tokens.shape[1]])[None, :]  # (1, K)
        choice = choice._replace(tokens=_ended(choice.tokens, due))
        if choice.best_tokens is None:
            return choice
        return choice._replace(best_tokens=_ended(choice.best_tokens, due[..., None]))

    def keep(self, which: Ints) -> None:
        self._stepper.keep(which)


def _ended(tokens: Ints, due: Bools) -> Ints:
    alive = np.where((tokens == EOS) | (tokens == DEL), N_SPECIAL, tokens)
    return np.where(due, EOS, alive)
