"""One-step decoding: predict a length, write all its tokens at once; or try several lengths (LPD).

Length-parallel decoding (Wei et al. 2019) writes n translations of different lengths in one batch and keeps
the one an autoregressive teacher likes best. Repetitions stay in, as in the paper's NAT.

B sentences, n length candidates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.vocab import BLANK, EOS

# (sources, targets) -> summed log-probability of each target, EOS included
Score = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Sequence[float]]


@dataclass(frozen=True)
class Written:
    """Translations of given lengths, and the log-probability of each token."""

    tokens: list[list[int]]
    log_probs: list[list[float]]

    def decoded(self, at: int) -> Decoded:
        """Return one of them, closed by an EOS that was never asked for."""
        return Decoded([[*self.tokens[at], EOS]], [self.log_probs[at]], steps=1)


class Writer(Protocol):
    """A batch of encoded sources, ready to be written in any length."""

    def lengths(self) -> Ints:
        """Predict the target length of each source, at least 1."""

    def write(self, members: Ints, lengths: Ints) -> Written:
        """Write a translation of lengths[i] tokens of source members[i], for every i; no special tokens."""


def decode_once(writer: Writer) -> list[Decoded]:
    """Write each sentence in its predicted length."""
    lengths = writer.lengths()
    written = writer.write(np.arange(len(lengths)), lengths)
    return [written.decoded(at) for at in range(len(lengths))]


def decode_lengths(writer: Writer, sources: Sequence[Sequence[int]], score: Score, n_lengths: int = 9) -> list[Decoded]:
    """Write each sentence in n lengths around the predicted one and keep the teacher's favourite (LPD).

    The teacher's sum is divided by the number of summed log-probabilities, tokens + EOS, lest short
    candidates always win. Of equals the one nearest to the predicted length wins.
    """
    candidates = length_candidates(writer.lengths(), n_lengths)  # (B, n)
    members = np.repeat(np.arange(len(candidates)), n_lengths)
    written = writer.write(members, candidates.reshape(-1))
    sums = np.array(score([sources[member] for member in members.tolist()], written.tokens), dtype=np.float64)
    means = sums.reshape(candidates.shape) / (candidates + 1)
    chosen = means.argmax(axis=1) + np.arange(len(candidates)) * n_lengths
    return [written.decoded(at) for at in chosen.tolist()]


def decode_path(path: list[int], log_probs: list[float]) -> Decoded:
    """Return what is left of a CTC model's path, each token with its first log-probability.

    >>> decode_path([11, 11, BLANK, 11, 12], [-1.0, -2.0, -3.0, -4.0, -5.0]).segments
    [[11, 11, 12, 2]]
    """
    kept = collapse(path)
    return Decoded([[*(path[place] for place in kept), EOS]], [[log_probs[place] for place in kept]], steps=1)


def collapse(path: Sequence[int]) -> list[int]:
    """Return the places of a path that stay: the first of equal neighbours, and no BLANK.

    >>> collapse([11, 11, BLANK, 11, 12])
    [0, 3, 4]
    """
    before = [BLANK, *path]
    return [place for place, token in enumerate(path) if token not in (BLANK, before[place])]


def length_candidates(predicted: Ints, n_lengths: int) -> Ints:
    """List n different lengths around each predicted one, nearest first, all at least 1.

    >>> length_candidates(np.array([10, 2]), 5).tolist()
    [[10, 9, 11, 8, 12], [2, 1, 3, 4, 5]]
    """
    first = np.maximum(predicted - n_lengths // 2, 1)
    window = first[:, None] + np.arange(n_lengths)[None, :]
    distance = np.abs(window - predicted[:, None])
    return np.take_along_axis(window, np.argsort(distance, axis=1, kind="stable"), axis=1)
