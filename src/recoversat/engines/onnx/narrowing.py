"""Begin with the whole vocabulary, go on with a list: what the model thought likely in the first step belongs to it.

The first tokens of K segments are chosen all over the sentence. The best of each, likely or not, are pieces that stand
nearby, as a model that knows no words before them guesses at several. With them a list misses far less (docs/log.md).
B sentences, K segments, n guesses.
"""

from dataclasses import replace
from typing import Protocol

from recoversat.decoding.stepping import Bools, Choice, Ints
from recoversat.engines.onnx.shortlist import Listed
from recoversat.engines.onnx.stepper import OnnxStepper

GUESSES = 100  # of each segment


class Cut(Protocol):
    """Cuts the lists of a batch, guesses (B, K * n) included."""

    def __call__(self, *, guesses: Ints | None) -> Listed | None: ...


class NarrowingStepper:
    """A stepper that gets a list once its first step is taken, or at once where there is nothing to guess by."""

    def __init__(self, stepper: OnnxStepper, cut: Cut, guesses: int) -> None:
        self._stepper, self._cut, self._guesses = stepper, cut, guesses
        if not guesses:
            self._narrow(None)

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Append a row to each active segment and choose its next token."""
        if not self._guesses:
            return self._stepper.step(tokens, active, forced, n_best, scores)
        choice = self._stepper.step(tokens, active, forced, max(n_best, self._guesses), scores)
        assert choice.best_tokens is not None
        assert choice.best_log_probs is not None
        self._narrow(choice.best_tokens[..., : self._guesses].reshape(len(tokens), -1))
        self._guesses = 0
        if not n_best:
            return replace(choice, best_tokens=None, best_log_probs=None)
        return replace(
            choice, best_tokens=choice.best_tokens[..., :n_best], best_log_probs=choice.best_log_probs[..., :n_best]
        )

    def keep(self, which: Ints) -> None:
        """Drop or reorder members of the batch."""
        self._stepper.keep(which)

    def _narrow(self, guesses: Ints | None) -> None:
        if listed := self._cut(guesses=guesses):
            self._stepper.choose_from(listed)
