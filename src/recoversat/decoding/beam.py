"""Beam search for models of one segment: batched, with the stepper's cache reordered as hypotheses change.

The beam of a sentence is the W best continuations of its open hypotheses, by summed log-probability. Those
that end in EOS are closed and set aside; the others are the open hypotheses of the next step, where they may
fill the whole beam again. With W = 1 this is greedy decoding. Closed hypotheses compete by

    score = sum of log-probabilities / ((5 + len) / 6)^alpha

where len counts what was summed: EOS included when closed, and not when cut off at the limit.

B sentences in the batch, W beam, C candidates a hypothesis, R results.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Bools, Choice, Ints, Stepper
from recoversat.decoding.stopping import between_steps
from recoversat.vocab import BOS, EOS

Sums = NDArray[np.float64]

_ROOT = -1  # the node of the empty hypothesis


def penalty(length: Ints, alpha: float) -> Sums:
    """Return what a sum of log-probabilities is divided by.

    >>> penalty(np.array([1, 7, 25]), alpha=1.0).tolist()
    [1.0, 2.0, 5.0]
    """
    return np.asarray(((5.0 + length) / 6.0) ** alpha)


def beam_search(stepper: Stepper, limits: Ints, beam: int = 4, alpha: float = 0.6) -> list[Decoded]:
    """Find the best translation of each sentence, sentence b in at most limits[b] steps.

    The stepper starts with one place a sentence. A sentence ends as soon as no open hypothesis can still become better
    than the best that has ended; `steps` counts up to there.
    """
    n, tree = len(limits), _Tree()
    best, winners = np.full(n, -np.inf), np.full(n, _ROOT)  # score and node of the best hypothesis that has ended
    steps, largest = np.zeros(n, dtype=np.int64), penalty(limits, alpha)
    members = np.arange(n)  # which sentence each line of the beams holds
    beams = _Beams(np.zeros((n, 1)), np.full((n, 1), BOS), np.full((n, 1), _ROOT))
    step = 0
    while len(members):
        between_steps()
        n_places = beams.tokens.size
        choice = stepper.step(beams.tokens.reshape(-1, 1), beams.is_open.reshape(-1, 1), None, beam)
        step += 1
        beams, parents = _extend(beams, choice, beam, tree)
        ended = beams.is_open & ((beams.tokens == EOS) | (step >= limits[members])[:, None])
        scores = np.where(ended, beams.sums / penalty(np.array(step), alpha), -np.inf)
        line, slot = np.arange(len(members)), scores.argmax(axis=1)
        better = scores[line, slot] > best[members]
        best[members[better]] = scores[line, slot][better]
        winners[members[better]] = beams.nodes[line, slot][better]
        beams = replace(beams, sums=np.where(ended, -np.inf, beams.sums))
        # sums only fall, so no open hypothesis will score better than its sum over the largest penalty
        running = beams.sums.max(axis=1) / largest[members] > best[members]
        steps[members[~running]] = step
        beams, members = beams.of(running), members[running]
        _reorder(stepper, parents[running], n_places)
    return _decoded(tree, winners, steps)


def search_as_transformers(stepper: Stepper, limits: Ints, beam: int = 4, alpha: float = 1.0) -> list[Decoded]:
    """Find a translation of each sentence as `generate` of Hugging Face's transformers does.

    W open hypotheses are kept beside those that have ended, whose score is their sum / length^alpha. A sentence ends
    when W have ended and the best open one, divided by its length so far, is not better than the worst of them.
    """
    n, tree = len(limits), _Tree()
    finished = np.full((n, beam), -np.inf)  # the best scores of hypotheses that have ended, best first
    winners, steps = np.full(n, _ROOT), np.zeros(n, dtype=np.int64)
    members = np.arange(n)
    beams = _Beams(np.zeros((n, 1)), np.full((n, 1), BOS), np.full((n, 1), _ROOT))
    step = 0
    while len(members):
        between_steps()
        n_places = beams.tokens.size
        choice = stepper.step(beams.tokens.reshape(-1, 1), beams.is_open.reshape(-1, 1), None, 2 * beam)
        step += 1
        beams, parents = _extend(beams, choice, 2 * beam, tree, in_order=False)
        ended = beams.is_open & ((beams.tokens == EOS) | (step >= limits[members])[:, None])
        scores = np.where(ended, beams.sums / step**alpha, -np.inf)[:, :beam]  # only what a beam would have kept
        line, slot = np.arange(len(members)), scores.argmax(axis=1)
        better = scores[line, slot] > finished[members, 0]
        winners[members[better]] = beams.nodes[line, slot][better]
        finished[members] = -np.sort(-np.concatenate([finished[members], scores], axis=1), axis=1)[:, :beam]
        sums = np.where(ended, -np.inf, beams.sums)
        kept = np.argsort(-sums, axis=1, kind="stable")[:, :beam]
        row = line[:, None]
        beams, parents = _Beams(sums[row, kept], beams.tokens[row, kept], beams.nodes[row, kept]), parents[row, kept]
        running = beams.is_open[:, 0] & (beams.sums[:, 0] / step**alpha > finished[members, -1])
        steps[members[~running]] = step
        beams, members = beams.of(running), members[running]
        _reorder(stepper, parents[running], n_places)
    return _decoded(tree, winners, steps)


def _decoded(tree: "_Tree", winners: Ints, steps: Ints) -> list[Decoded]:
    paths = zip(tree.paths(winners), steps.tolist(), strict=True)
    return [Decoded([tokens], [log_probs], taken) for (tokens, log_probs), taken in paths]


@dataclass(frozen=True)
class _Beams:
    """The hypotheses of each sentence; an empty slot has sum -inf."""

    sums: Sums  # (B, W)
    tokens: Ints  # (B, W) the newest of each
    nodes: Ints  # (B, W) where the tree holds all of it

    @property
    def is_open(self) -> Bools:
        return self.sums > -np.inf

    def of(self, running: Bools) -> "_Beams":
        """Leave out the sentences that have ended."""
        return self if running.all() else _Beams(self.sums[running], self.tokens[running], self.nodes[running])


def _extend(beams: _Beams, choice: Choice, beam: int, tree: "_Tree", in_order: bool = True) -> tuple[_Beams, Ints]:
    """Take the best continuations of each sentence, in the order of their parents or else the best first.

    Also say from which place of the stepper each comes.
    """
    assert choice.best_tokens is not None
    assert choice.best_log_probs is not None
    n, width = beams.sums.shape
    n_candidates = choice.best_tokens.shape[-1]
    log_probs = choice.best_log_probs.reshape(n, -1).astype(np.float64)  # (B, W * C)
    sums = np.repeat(beams.sums, n_candidates, axis=1) + log_probs
    picked = np.argsort(-sums, axis=1, kind="stable")[:, :beam]  # (B, W)
    if in_order:  # often nothing moves in the cache then
        picked.sort(axis=1)
    line, parent = np.arange(n)[:, None], picked // n_candidates
    tokens = choice.best_tokens.reshape(n, -1)[line, picked]
    nodes = tree.grow(beams.nodes[line, parent], tokens, log_probs[line, picked])
    return _Beams(sums[line, picked], tokens, nodes), line * width + parent


def _reorder(stepper: Stepper, parents: Ints, n_places: int) -> None:
    """Let the stepper's places follow the hypotheses; copying a cache onto itself is spared."""
    order = parents.reshape(-1)
    if len(order) and not np.array_equal(order, np.arange(n_places)):
        stepper.keep(order)


class _Tree:
    """All hypotheses there ever were: a node adds a token to its parent, so that nothing is copied."""

    def __init__(self) -> None:
        self._parents: list[Ints] = []
        self._tokens: list[Ints] = []
        self._log_probs: list[Sums] = []
        self._size = 0

    def grow(self, parents: Ints, tokens: Ints, log_probs: Sums) -> Ints:
        """Add nodes and return their numbers."""
        self._parents.append(parents.reshape(-1))
        self._tokens.append(tokens.reshape(-1))
        self._log_probs.append(log_probs.reshape(-1))
        self._size += tokens.size
        return np.arange(self._size - tokens.size, self._size).reshape(tokens.shape)

    def paths(self, nodes: Ints) -> list[tuple[list[int], list[float]]]:
        """Return tokens and log-probabilities from the root to each node."""
        if not len(nodes):
            return []
        parents, tokens, log_probs = (np.concatenate(x) for x in (self._parents, self._tokens, self._log_probs))
        upwards = [nodes]
        while (upwards[-1] != _ROOT).any():
            upwards.append(np.where(upwards[-1] == _ROOT, _ROOT, parents[upwards[-1]]))
        trails = np.stack(upwards[::-1], axis=1)  # (R, longest), short ones begin with roots
        lengths = (trails != _ROOT).sum(axis=1).tolist()
        return [
            (tokens[trail].tolist(), log_probs[trail].tolist())
            for trail in (line[len(line) - length :] for line, length in zip(trails, lengths, strict=True))
        ]
