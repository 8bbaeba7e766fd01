"""Randomness with an address: the same (seed, epoch, sentence) always gives the same draws.

A resumed run, another number of workers or another batch size then changes nothing. The draws are
hashes of their address (SplitMix64's finaliser), computed for a whole batch at once: making a numpy
Generator for each of the ~2,000 sentences of an update would cost more than dividing them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: consecutive counters land far apart


def uniforms(seed: int, epoch: int, sentences: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Draw `n` numbers in [0, 1) for each sentence.

    >>> both = uniforms(1, 0, np.array([7, 8]), 3)
    >>> alone = uniforms(1, 0, np.array([8]), 3)
    >>> bool((both[1] == alone[0]).all())
    True
    """
    with np.errstate(over="ignore"):
        key = _mix(np.uint64(seed) + np.uint64(_GOLDEN))
        key = _mix(key ^ _mix(np.uint64(epoch) + np.uint64(2) * np.uint64(_GOLDEN)))
        per_sentence = _mix(key ^ _mix(sentences.astype(np.uint64) + np.uint64(_GOLDEN)))
        counters = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        bits = _mix(per_sentence[:, None] + counters[None, :])
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def derived_seed(*address: int) -> int:
    """Fold an address such as (seed, update, rank) into one 63-bit seed.

    >>> derived_seed(1, 2) == derived_seed(1, 2), derived_seed(1, 2) == derived_seed(2, 1)
    (True, False)
    """
    state = np.uint64(0)
    with np.errstate(over="ignore"):
        for part in address:
            state = _mix(state + np.uint64(part) + np.uint64(_GOLDEN))
    return int(state >> np.uint64(1))


def _mix(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
