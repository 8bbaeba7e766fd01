"""Let an untrained model write a fixed number of tokens, so that its speed means something.

The real decoding runs; only when segments end is decided here (`Options.lives`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.pairs import Pair


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


class FixedEngine(Engine):
    """An engine whose every translation has `length` tokens."""

    def __init__(self, engine: Engine, length: int) -> None:
        self._engine, self.length = engine, length

    @property
    def max_segments(self) -> int:
        return self._engine.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        return self._engine.description

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        fixed = replace(options, lives=lives(self.length, int(n_segments.max())))
        return self._engine.decode(sources, n_segments, fixed)

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        return self._engine.search(sources, beam, replace(options, lives=lives(self.length, 1)))

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        return self._engine.score(pairs, n_segments)
