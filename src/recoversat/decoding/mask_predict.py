"""Mask-predict (Ghazvininejad et al. 2019): write all tokens at once, then the least sure ones again and again.

Of N tokens, N * (T - t) // T are masked after pass t of T and predicted from the others: fewer each time, none after
the last. Several lengths are written side by side, and the one whose tokens are the surest on average is kept.

B sentences, n lengths each, R = B * n translations, N tokens of the longest.
"""

import numpy as np

from recoversat.decoding.oneshot import Filler
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Bools, Floats, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.vocab import EOS, MASK


def mask_predict(filler: Filler, iterations: int, n_lengths: int) -> list[Decoded]:
    """Write each sentence in its n likeliest lengths, in so many passes, and keep the best."""
    lengths = filler.likeliest_lengths(n_lengths)  # (B, n)
    sentences, sizes = np.arange(len(lengths)), lengths.reshape(-1)
    members = np.repeat(sentences, lengths.shape[1])
    real = np.arange(int(sizes.max())) < sizes[:, None]  # (R, N)
    tokens, log_probs = np.full(real.shape, MASK), np.zeros(real.shape, dtype=np.float32)
    masked, passes = real, np.zeros(len(sizes), dtype=np.int64)
    for done in range(1, iterations + 1):
        between_steps()
        passes += masked.any(axis=1)
        chosen, scores = filler.fill(members, np.where(masked, MASK, tokens), sizes)
        tokens, log_probs = np.where(masked, chosen, tokens), np.where(masked, scores, log_probs)
        masked = least_sure(log_probs, real, sizes * (iterations - done) // iterations)
        if not masked.any():
            break
    means = (log_probs * real).sum(axis=1) / sizes
    best = means.reshape(lengths.shape).argmax(axis=1) + sentences * lengths.shape[1]
    taken = passes.reshape(lengths.shape).max(axis=1).tolist()
    return [
        Decoded([[*tokens[at, : sizes[at]].tolist(), EOS]], [log_probs[at, : sizes[at]].tolist()], steps)
        for at, steps in zip(best.tolist(), taken, strict=True)
    ]


def least_sure(log_probs: Floats, real: Bools, counts: Ints) -> Bools:
    """Choose the counts[r] least likely tokens of each translation; of equals the first.

    >>> one = np.ones((1, 4), dtype=bool)
    >>> least_sure(np.array([[-0.1, -2.0, -0.5, -2.0]], dtype=np.float32), one, np.array([2])).astype(int).tolist()
    [[0, 1, 0, 1]]
    """
    order = np.argsort(np.where(real, log_probs, np.inf), axis=1, kind="stable")
    return np.asarray(np.argsort(order, axis=1, kind="stable") < counts[:, None])
