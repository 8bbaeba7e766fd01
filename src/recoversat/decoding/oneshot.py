"""One-step decoding: predict a length, write all its tokens at once; or try several lengths (LPD).

Length-parallel decoding (Wei et al. 2019) writes n translations of different lengths in one batch and keeps
the one an autoregressive teacher likes best. Repetitions stay in, as in the paper's NAT.

B sentences, n length candidates.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.vocab import BLANK, EOS, N_SPECIAL

Sources = Sequence[Sequence[int]]
# (sources, targets) -> summed log-probability of each target, EOS included
Score = Callable[[Sources, Sequence[Sequence[int]]], Sequence[float]]


class Filler(Protocol):
    """A batch of encoded sources whose translations can be filled in, place by place and all at once."""

    def likeliest_lengths(self, n: int) -> Ints:
        """Return the n likeliest target lengths of each source, at least 1 each: (B, n), best first."""

    def fill(self, members: Ints, tokens: Ints, lengths: Ints, least: int = N_SPECIAL) -> tuple[Ints, Floats]:
        """Return the likeliest token of every place, and its log-probability; ids below `least` are never written.

        Translation r is of source members[r] and has lengths[r] places, which carry tokens[r].
        """


def copied(source: Sequence[int], length: int) -> Ints:
    """Copy a source to places 0 .. T - 1: its token round(j * S / T) to place j (as `model.nat.copied_places` does).

    >>> copied([7, 8, 9], 6).tolist()
    [7, 8, 8, 9, 9, 9]
    """
    nearest = (2 * np.arange(length) * len(source) + length) // (2 * length)  # rounds half up, in integers
    return np.asarray(source)[np.minimum(nearest, len(source) - 1)]


def write(filler: Filler, sources: Sources, members: Ints, lengths: Ints) -> list[Decoded]:
    """Write a translation of lengths[i] tokens of source members[i], for every i, closed by an EOS nobody asked for."""
    carried = np.zeros((len(members), int(lengths.max())), dtype=np.int64)
    for row, member, length in zip(carried, members.tolist(), lengths.tolist(), strict=True):
        row[:length] = copied(sources[member], length)
    tokens, log_probs = filler.fill(members, carried, lengths)
    each = zip(tokens.tolist(), log_probs.tolist(), lengths.tolist(), strict=True)
    return [Decoded([[*line[:length], EOS]], [scores[:length]], steps=1) for line, scores, length in each]


def decode_once(filler: Filler, sources: Sources) -> list[Decoded]:
    """Write each sentence in its predicted length."""
    return write(filler, sources, np.arange(len(sources)), filler.likeliest_lengths(1)[:, 0])


def decode_lengths(filler: Filler, sources: Sources, score: Score, n_lengths: int = 9) -> list[Decoded]:
    """Write each sentence in n lengths around the predicted one and keep the teacher's favourite (LPD).

    The teacher's sum is divided by the number of summed log-probabilities, tokens + EOS, lest short
    candidates always win. Of equals the one nearest to the predicted length wins.
    """
    candidates = length_candidates(filler.likeliest_lengths(1)[:, 0], n_lengths)  # (B, n)
    members = np.repeat(np.arange(len(candidates)), n_lengths)
    written = write(filler, sources, members, candidates.reshape(-1))
    targets = [one.segments[0][:-1] for one in written]
    sums = np.array(score([sources[member] for member in members.tolist()], targets), dtype=np.float64)
    means = sums.reshape(candidates.shape) / (candidates + 1)
    chosen = means.argmax(axis=1) + np.arange(len(candidates)) * n_lengths
    return [written[at] for at in chosen.tolist()]


def decode_paths(filler: Filler, sources: Sources, times: int) -> list[Decoded]:
    """Write each sentence as what is left of the likeliest path over `times` places a source token (CTC).

    Each token has the log-probability of its first place.
    """
    sizes = np.array([len(source) * times for source in sources])
    carried = np.zeros((len(sources), int(sizes.max())), dtype=np.int64)
    for row, source in zip(carried, sources, strict=True):
        row[: len(source) * times] = np.repeat(source, times)
    tokens, log_probs = filler.fill(np.arange(len(sources)), carried, sizes, BLANK)
    results = []
    for path, probs, size in zip(tokens.tolist(), log_probs.tolist(), sizes.tolist(), strict=True):
        kept = collapse(path[:size])
        results.append(Decoded([[*(path[at] for at in kept), EOS]], [[probs[at] for at in kept]], steps=1))
    return results


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
