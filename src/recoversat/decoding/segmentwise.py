"""Write all K segments of a sentence at the same time, one token each a step (Section 3.1).

With K = 1 this is greedy autoregressive decoding. B sentences, K segments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from recoversat.decoding.stepping import FREE, Bools, Choice, Ints, Stepper
from recoversat.vocab import BOS, PAD, TERMINATORS

# For one sentence: (segment, position in it) -> the token that must stand there.
Forced = Mapping[tuple[int, int], int]


@dataclass
class Decoded:
    """What was written for one sentence: its segments, each closed by EOS or DEL unless it was cut off."""

    segments: list[list[int]]
    log_probs: list[list[float]]
    steps: int = 0  # the longest segment, its EOS or DEL included
    alternatives: list[list[list[tuple[int, float]]]] = field(default_factory=list)


def max_steps(src_lengths: Ints, n_segments: Ints, extra_steps: int) -> Ints:
    """Allow each segment ceil(source length / K) + extra_steps steps.

    >>> max_steps(np.array([25, 25]), np.array([10, 1]), 20).tolist()
    [23, 45]
    """
    return np.asarray(-(-src_lengths // n_segments) + extra_steps)


def decode_segments(
    stepper: Stepper,
    n_segments: Ints,
    limits: Ints,
    forced: Sequence[Forced] | None = None,
    n_best: int = 0,
) -> list[Decoded]:
    """Decode a batch; sentence b is written as n_segments[b] segments of at most limits[b] steps."""
    results = [Decoded([[] for _ in range(k)], [[] for _ in range(k)]) for k in n_segments]
    if n_best:
        for result in results:
            result.alternatives = [[] for _ in result.segments]
    members = np.arange(len(n_segments))  # which sentence each place of the batch holds
    active = np.arange(int(n_segments.max()))[None, :] < n_segments[:, None]  # (B, K)
    tokens = np.where(active, BOS, PAD)
    step = 0
    while len(members):
        forced_now = _forced_at(step, members, active, forced)
        choice = stepper.step(tokens, active, forced_now, n_best)
        step += 1
        _record(choice, members, active, results, step)
        active = active & ~np.isin(choice.tokens, TERMINATORS) & (step < limits[members])[:, None]
        tokens = np.where(active, choice.tokens, PAD)
        running: Bools = np.asarray(active.any(axis=1))
        if not running.all() and _worth_leaving(running):
            stayers = np.flatnonzero(running)
            stepper.keep(stayers)
            members, active, tokens = members[stayers], active[stayers], tokens[stayers]
    return results


def _worth_leaving(running: Bools) -> bool:
    """Say whether enough sentences have ended to pay for copying the cache of the others."""
    return int((~running).sum()) * 8 >= len(running)


def _forced_at(step: int, members: Ints, active: Bools, forced: Sequence[Forced] | None) -> Ints | None:
    if forced is None or not any(forced):
        return None
    tokens = np.full(active.shape, FREE, dtype=np.int64)
    for place, member in enumerate(members):
        for (segment, position), token in forced[member].items():
            if position == step:
                tokens[place, segment] = token
    return tokens


def _record(choice: Choice, members: Ints, active: Bools, results: list[Decoded], step: int) -> None:
    for place, segment in zip(*np.nonzero(active), strict=True):
        result = results[members[place]]
        result.segments[segment].append(int(choice.tokens[place, segment]))
        result.log_probs[segment].append(float(choice.log_probs[place, segment]))
        result.steps = step
        if choice.best_tokens is not None and choice.best_log_probs is not None:
            ids, scores = choice.best_tokens[place, segment], choice.best_log_probs[place, segment]
            best = [(int(i), float(s)) for i, s in zip(ids, scores, strict=True)]
            result.alternatives[segment].append(best)
