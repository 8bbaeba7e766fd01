"""Let an untrained model write a fixed number of tokens, so that its speed means something.

The real decoding runs; only when segments end is decided here (`Options.lives`).
"""

from dataclasses import replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources, WrappedEngine


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


class FixedEngine(WrappedEngine):
    """An engine whose every translation has `length` tokens."""

    def __init__(self, engine: Engine, length: int) -> None:
        super().__init__(engine)
        self.length = length

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        own = lives(self.length, int(n_segments.max()))
        return super().decode(sources, n_segments, replace(options, lives=own))

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        return super().search(sources, beam, replace(options, lives=lives(self.length, 1)))
