"""Write all K segments of a sentence at the same time, one token each a step (Section 3.1).

With K = 1 this is greedy autoregressive decoding. B sentences, K segments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from recoversat.decoding.stepping import FREE, Bools, Choice, Ints, Stepper
from recoversat.decoding.stopping import between_steps
from recoversat.vocab import BOS, DEL, EOS, PAD

# For one sentence: (segment, position in it) -> the token that must stand there.
Forced = Mapping[tuple[int, int], int]


@dataclass
class Decoded:
    """What was written for one sentence: its segments, each closed by EOS or DEL unless it was cut off."""

    segments: list[list[int]]
    log_probs: list[list[float]]
    steps: int = 0  # the longest segment, its EOS or DEL included
    alternatives: list[list[list[tuple[int, float]]]] = field(default_factory=list)
    judged: list[float] = field(default_factory=list)  # of its tokens and EOS with K = 1, where somebody asked
    draft: list[int] = field(default_factory=list, repr=False)  # what was verified (`recoversat.decoding.verify`)
    accepted: list[bool] = field(default_factory=list, repr=False)  # which tokens the draft had too, in their place

    @property
    def as_one(self) -> list[float]:
        """Log-probabilities of the whole with K = 1, as far as they are known."""
        return self.judged or (self.log_probs[0] if len(self.segments) == 1 else [])


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
    scores: bool = True,
) -> list[Decoded]:
    """Decode a batch; sentence b is written as n_segments[b] segments of at most limits[b] steps.

    Without `scores` log-probabilities need not be computed, and the results hold none.
    """
    results = [Decoded([[] for _ in range(k)], [[] for _ in range(k)]) for k in n_segments]
    if n_best:
        for result in results:
            result.alternatives = [[] for _ in result.segments]
    members = np.arange(len(n_segments))  # which sentence each place of the batch holds
    active = np.arange(int(n_segments.max()))[None, :] < n_segments[:, None]  # (B, K)
    tokens = np.where(active, BOS, PAD)
    step = 0
    while True:
        between_steps()
        forced_now = _forced_at(step, members, active, forced)
        choice = stepper.step(tokens, active, forced_now, n_best, scores)
        step += 1
        _record(choice, members, active, results, step, scores)
        active = active & (choice.tokens != EOS) & (choice.tokens != DEL) & (step < limits[members])[:, None]
        tokens = np.where(active, choice.tokens, PAD)
        running: Bools = active.any(axis=1)
        if not running.any():
            break
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


def _record(choice: Choice, members: Ints, active: Bools, results: list[Decoded], step: int, scores: bool) -> None:
    places, at = np.nonzero(active)
    owners, segments, tokens = members[places].tolist(), at.tolist(), choice.tokens[active].tolist()
    for owner, segment, token in zip(owners, segments, tokens, strict=True):
        results[owner].segments[segment].append(token)
        results[owner].steps = step
    if not scores:
        return
    for owner, segment, log_prob in zip(owners, segments, choice.log_probs[active].tolist(), strict=True):
        results[owner].log_probs[segment].append(log_prob)
    if choice.best_tokens is None or choice.best_log_probs is None:
        return
    best = zip(choice.best_tokens[active].tolist(), choice.best_log_probs[active].tolist(), strict=True)
    for owner, segment, alternatives in zip(owners, segments, best, strict=True):
        results[owner].alternatives[segment].append(list(zip(*alternatives, strict=True)))
