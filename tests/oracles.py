"""The paper's definitions, one sentence at a time: what the program does for whole batches is compared with them."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from recoversat.segments import N_FIXED_DRAWS, Floats, divide_many
from recoversat.vocab import DEL, EOS


class RandomSource(Protocol):
    """Anything with numpy's `Generator.random`."""

    def random(self, size: int) -> Floats:
        """Draw `size` numbers in [0, 1)."""


def divide(
    target: Sequence[int],
    n_segments: int,
    random_prob: float,
    repeat_prob: float,
    rng: RandomSource,
    may_cut: Sequence[bool] | None = None,
) -> list[list[int]]:
    """Divide one target into exactly K segments, one of them a pseudo repetition with probability q.

    >>> divide([11, 12, 13, 14, 15], 2, random_prob=0.0, repeat_prob=0.0, rng=np.random.default_rng(0))
    [[11, 12, 13, 2], [14, 15, 2]]
    >>> divide([11, 12, 13, 14, 15], 3, random_prob=0.0, repeat_prob=1.0, rng=np.random.default_rng(0))
    [[11, 12, 13, 2], [11, 4], [14, 15, 2]]
    """
    division = divide_many(
        np.array([len(target)]),
        np.array([n_segments]),
        random_prob,
        repeat_prob,
        np.asarray(rng.random(N_FIXED_DRAWS + len(target)))[None, :],
        None if may_cut is None else np.array([may_cut], dtype=bool).reshape(1, -1),
    )
    return [
        [*target[start : start + length], DEL if is_copy else EOS]
        for start, length, is_copy in zip(division.start[0], division.length[0], division.is_copy[0], strict=True)
    ]
