"""SAT (Wang et al. 2018) as an engine: K consecutive tokens a step, by any engine that writes K segments at once.

Tokens were dealt out to the segments in turn when the model was trained (`segments.deal_many`), so a step writes K
neighbours; here they come back in the order in which they are read, as one segment. Rows and mask are RecoverSAT's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources, WrappedEngine
from recoversat.engines.pairs import Pair
from recoversat.errors import UserError
from recoversat.segments import deal_many, reading_order
from recoversat.vocab import EOS, TERMINATORS

T = TypeVar("T")


class InterleavedEngine(WrappedEngine):
    """Reads what another engine writes in turn."""

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        if options.forced and any(options.forced):
            raise UserError("a SAT (model.kind sat) cannot be given words: its segments are no parts of a sentence")
        if options.lives is not None and len(options.lives) > 1:
            options = replace(options, lives=_dealt(options.lives))
        written = super().decode(sources, n_segments, replace(options, forced=None, together=True))
        return [interleaved(one) for one in written]

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        if n_segments > 1:
            raise UserError(f"segments {n_segments}: a SAT (model.kind sat) scores translations with segments 1 only")
        return super().score(pairs)


def in_reading_order(engine: Engine, config: ModelConfig) -> Engine:
    """Wrap an engine of segments where its model is a SAT."""
    return InterleavedEngine(engine) if config.kind == "sat" else engine


def interleaved(written: Decoded) -> Decoded:
    """Put tokens that were written in turn into one segment, up to the first end.

    >>> interleaved(Decoded([[11, 13, EOS], [12, EOS]], [[-1.0, -3.0, -5.0], [-2.0, -4.0]]))
    Decoded(segments=[[11, 12, 13, 2]], log_probs=[[-1.0, -2.0, -3.0, -4.0]], steps=2, top_tokens=[], judged=[])
    """
    order = reading_order(written.segments)
    tokens = [written.segments[owner][position] for owner, position in order]
    if tokens[-1] in TERMINATORS:
        tokens[-1] = EOS
    return Decoded(
        [tokens], _read(written.log_probs, order) or [[]], order[-1][1] + 1, _read(written.top_tokens, order)
    )


def _read(noted: list[list[T]], order: list[tuple[int, int]]) -> list[list[T]]:
    """Put what was noted of tokens into their order; where nothing was, there is nothing to put."""
    return [[noted[owner][position] for owner, position in order]] if any(noted) else []


def _dealt(lives: Ints) -> Ints:
    """Return after how many steps each segment ends where all of them together write as much as with `lives`."""
    tokens, k = int((lives - 1).sum()), len(lives)
    return deal_many(np.array([tokens]), np.array([k])).length[0] + 1
