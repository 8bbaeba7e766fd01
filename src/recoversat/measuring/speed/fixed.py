"""Let an untrained model write a fixed number of tokens, so that its speed means something.

The real decoding runs: only what the engine chose is changed, so that segments end when they should.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from recoversat.decoding.beam import NBest
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Bools, Choice, Ints, Stepper
from recoversat.engines.engine import Engine, WholeDecoder
from recoversat.vocab import DEL, EOS, N_SPECIAL


def lives(length: int, n_segments: int) -> Ints:
    """Say after how many steps each segment ends, its EOS included, when K of them write `length` tokens.

    One segment takes `length` steps. Of several, one is a token longer than an even division makes it: the sentence
    takes ceil(length / K) + 2 steps, as trained models do.

    >>> lives(25, 10).tolist(), lives(25, 1).tolist()
    ([5, 3, 4, 4, 4, 3, 3, 3, 3, 3], [25])
    """
    if n_segments == 1:
        return np.array([length])
    even = np.array([length // n_segments + (i < length % n_segments) for i in range(n_segments)])
    if even[1] > 0:
        even[0], even[1] = even[0] + 1, even[1] - 1
    return even + 1


def fix_length(engine: Engine, length: int) -> "FixedEngine":
    """Make an engine write `length` tokens, in the way it decodes fastest."""
    return FixedDecoder(engine, length) if isinstance(engine, WholeDecoder) else FixedEngine(engine, length)


class FixedEngine:
    """An engine whose every translation has `length` tokens."""

    def __init__(self, engine: Engine, length: int) -> None:
        self._engine, self.length = engine, length

    @property
    def max_segments(self) -> int:
        return self._engine.max_segments

    @property
    def description(self) -> Any:
        return getattr(self._engine, "description", None)

    def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> "FixedStepper":
        """Encode as the engine does."""
        return FixedStepper(self._engine.start(sources, n_segments), lives(self.length, int(n_segments.max())))


class FixedDecoder(FixedEngine, WholeDecoder):
    """An engine that decodes whole sentences; all segments live to the last step, as nothing ends them before."""

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        n_segments: Ints,
        limits: Ints,
        forced: Sequence[Forced] | None = None,
        n_best: int = 0,
    ) -> list[Decoded]:
        """Decode as the engine does, up to the last step."""
        last = int(lives(self.length, int(n_segments.max())).max())
        return self._whole.decode(sources, n_segments, np.full_like(limits, last), forced, n_best)

    def search(self, sources: Sequence[Sequence[int]], limits: Ints, beam: int = 4, alpha: float = 0.6) -> list[NBest]:
        """Search as the engine does, up to the last step."""
        return self._whole.search(sources, np.full_like(limits, self.length), beam, alpha)

    @property
    def _whole(self) -> WholeDecoder:
        assert isinstance(self._engine, WholeDecoder)
        return self._engine


class FixedStepper:
    """Replaces the ends that the engine chose by those that are due."""

    def __init__(self, stepper: Stepper, lives: Ints) -> None:
        self._stepper, self._lives, self._step = stepper, lives, 0

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Take a real step."""
        choice = self._stepper.step(tokens, active, forced, n_best, scores)
        self._step += 1
        due = (self._step >= self._lives)[None, :]  # (1, K)
        choice = replace(choice, tokens=_ended(choice.tokens, due))
        if choice.best_tokens is None:
            return choice
        return replace(choice, best_tokens=_ended(choice.best_tokens, due[..., None]))

    def keep(self, which: Ints) -> None:
        """Drop or reorder members of the batch."""
        self._stepper.keep(which)


def _ended(tokens: Ints, due: Bools) -> Ints:
    alive = np.where((tokens == EOS) | (tokens == DEL), N_SPECIAL, tokens)
    return np.where(due, EOS, alive)
