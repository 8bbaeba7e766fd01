"""Write all K segments of a sentence at the same time, one token each a step (Section 3.1).

With K = 1 this is greedy autoregressive decoding. B sentences, K segments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, TypeVar

import numpy as np

from recoversat.decoding.stepping import FREE, Bools, Choice, Ints, Stepper
from recoversat.decoding.stopping import between_steps
from recoversat.vocab import BOS, TERMINATORS

T = TypeVar("T")

# For one sentence: (segment, position in it) -> the token that must stand there.
Forced = Mapping[tuple[int, int], int]


@dataclass
class Decoded:
    """What was written for one sentence: its segments, each closed by EOS or DEL unless it was cut off."""

    segments: list[list[int]]
    log_probs: list[list[float]]
    steps: int = 0  # the longest segment, its EOS or DEL included
    # the likeliest tokens at each place, with their log-probabilities; none unless asked for
    top_tokens: list[list[list[tuple[int, float]]]] = field(default_factory=list)
    judged: list[float] = field(default_factory=list)  # of its tokens and EOS with K = 1, where somebody asked
    draft: list[int] = field(default_factory=list, repr=False)  # what was verified (`recoversat.decoding.verify`)
    accepted: list[bool] = field(default_factory=list, repr=False)  # which tokens the draft had too, in their place

    @property
    def as_one(self) -> list[float]:
        """Log-probabilities of the whole with K = 1, as far as they are known."""
        return self.judged or (self.log_probs[0] if len(self.segments) == 1 else [])


def max_steps(src_length: int, n_segments: int, extra_steps: int) -> int:
    """Allow each segment ceil(source length / K) + extra_steps steps.

    >>> max_steps(25, 10, 20), max_steps(25, 1, 20)
    (23, 45)
    """
    return -(-src_length // n_segments) + extra_steps


def decode_segments(
    stepper: Stepper,
    n_segments: Ints,
    limits: Ints,
    forced: Sequence[Forced] | None = None,
    top_tokens: int = 0,
    scores: bool = True,
    together: bool = False,
) -> list[Decoded]:
    """Decode a batch; sentence b is written as n_segments[b] segments of at most limits[b] steps.

    Without `scores` log-probabilities need not be computed, and the results hold none. `together`: all segments of a
    sentence end in the step in which the first does.
    """
    # plain lists where they do: a sentence alone is far too small for numpy
    counts = n_segments.tolist()
    results = [Decoded([[] for _ in range(k)], [[] for _ in range(k)]) for k in counts]
    if top_tokens:
        for result in results:
            result.top_tokens = [[] for _ in result.segments]
    batch = [_Place(*one) for one in zip(results, limits.tolist(), forced or repeat({}), strict=False)]
    is_open = [[segment < k for segment in range(max(counts))] for k in counts]  # (B, K)
    active = np.array(is_open)
    tokens, step = BOS * active, 0  # PAD is 0
    while True:
        between_steps()
        forced_now = _forced_at(step, batch, active) if forced else None
        choice = stepper.step(tokens, active, forced_now, top_tokens, scores)
        step += 1
        if scores:
            _record_scores(choice, is_open, batch)
        _record(choice.tokens.tolist(), is_open, batch, step, together)
        stayers = [number for number, flags in enumerate(is_open) if True in flags]
        if not stayers:
            break
        active = np.array(is_open)
        tokens = choice.tokens * active
        if _worth_leaving(len(batch) - len(stayers), len(batch)):
            stepper.keep(np.array(stayers))
            batch, is_open = [batch[number] for number in stayers], [is_open[number] for number in stayers]
            active, tokens = active[stayers], tokens[stayers]
    for result in results:
        result.steps = max(map(len, result.segments))
    return results


class _Place(NamedTuple):
    """A sentence that a place of the batch holds."""

    written: Decoded
    limit: int  # steps it may take
    forced: Forced


def _worth_leaving(ended: int, batch: int) -> bool:
    """Say whether enough sentences have ended to pay for copying the cache of the others."""
    return 0 < ended * 8 >= batch


def _forced_at(step: int, batch: list[_Place], active: Bools) -> Ints:
    tokens = np.full(active.shape, FREE, dtype=np.int64)
    for number, place in enumerate(batch):
        for (segment, position), token in place.forced.items():
            if position == step:
                tokens[number, segment] = token
    return tokens


def _record(tokens: list[list[int]], is_open: list[list[bool]], batch: list[_Place], step: int, together: bool) -> None:
    """Note what every open segment has got, and close those that have ended."""
    for place, chosen, flags in zip(batch, tokens, is_open, strict=True):
        for number, segment in enumerate(place.written.segments):
            if flags[number]:
                segment.append(chosen[number])
                flags[number] = chosen[number] not in TERMINATORS and step < place.limit
        if together and not all(flags[: len(place.written.segments)]):
            flags[:] = [False] * len(flags)


def _record_scores(choice: Choice, is_open: list[list[bool]], batch: list[_Place]) -> None:
    _append(choice.log_probs.tolist(), is_open, [place.written.log_probs for place in batch])
    if choice.best_tokens is not None and choice.best_log_probs is not None:
        best = [
            [list(zip(*likeliest, strict=True)) for likeliest in zip(*sentence, strict=True)]
            for sentence in zip(choice.best_tokens.tolist(), choice.best_log_probs.tolist(), strict=True)
        ]
        _append(best, is_open, [place.written.top_tokens for place in batch])


def _append(found: list[list[T]], is_open: list[list[bool]], to: list[list[list[T]]]) -> None:
    """Append what was found for each segment of each sentence; sentences of fewer segments have no more lists."""
    for values, flags, lists in zip(found, is_open, to, strict=True):
        for value, flag, one in zip(values, flags, lists, strict=False):
            if flag:
                one.append(value)
