"""Beam search for models of one segment: batched, with the stepper's cache reordered as hypotheses change.

The beam of a sentence is the W best continuations of its open hypotheses, by summed log-probability. Those
that end in EOS are closed and set aside; the others are the open hypotheses of the next step, where they may
fill the whole beam again. With W = 1 this is greedy decoding. Closed hypotheses compete by

    score = sum of log-probabilities / ((5 + len) / 6)^alpha

where len counts what was summed: EOS included when closed, and not when cut off at the limit.

B sentences in the batch, W beam, C candidates a hypothesis, R results.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import Bools, Choice, Ints, Stepper
from recoversat.decoding.stopping import between_steps
from recoversat.vocab import BOS, EOS

Sums = NDArray[np.float64]

_ROOT = -1  # the node of the empty hypothesis


@dataclass(frozen=True)
class Hypothesis:
    """One translation; `token_log_probs` has one entry more than `tokens` when it is closed, that of EOS."""

    tokens: list[int]
    log_prob: float
    score: float
    closed: bool  # ended in EOS; otherwise it was cut off at the limit
    token_log_probs: list[float]


@dataclass(frozen=True)
class NBest:
    """The best hypotheses of one sentence, best first, and the steps until none could be displaced."""

    hypotheses: list[Hypothesis]
    steps: int

    @property
    def best(self) -> Hypothesis:
        """The winner."""
        return self.hypotheses[0]


def penalty(length: Ints, alpha: float) -> Sums:
    """Return what a sum of log-probabilities is divided by.

    >>> penalty(np.array([1, 7, 25]), alpha=1.0).tolist()
    [1.0, 2.0, 5.0]
    """
    return np.asarray(((5.0 + length) / 6.0) ** alpha)


def beam_search(
    stepper: Stepper,
    limits: Ints,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    stop_early: bool = True,
) -> list[NBest]:
    """Find the n best translations of each sentence, sentence b in at most limits[b] steps.

    The stepper starts with one place a sentence. A sentence ends as soon as no open hypothesis can still
    enter its n best; without `stop_early` it goes on to its limit, for the same result.
    """
    tree = _Tree()
    results = _Results(len(limits), n_best)
    largest = penalty(limits, alpha)
    members = np.arange(len(limits))  # which sentence each line of the beams holds
    beams = _start(len(limits))
    step = 0
    while len(members):
        between_steps()
        n_places = beams.tokens.size
        choice = stepper.step(beams.tokens.reshape(-1, 1), beams.is_open.reshape(-1, 1), None, beam)
        step += 1
        beams, parents = _extend(beams, choice, beam, tree)
        closed = beams.is_open & (beams.tokens == EOS)
        ended = closed | (beams.is_open & (step >= limits[members])[:, None])
        results.add(members, beams, ended, beams.sums / penalty(np.array(step), alpha))
        beams = replace(beams, sums=np.where(ended, -np.inf, beams.sums))
        running = np.asarray(beams.is_open.any(axis=1))
        if stop_early:
            # sums only fall, so no open hypothesis will score better than its sum over the largest penalty
            reachable = beams.sums.max(axis=1) / largest[members]
            running = running & (reachable > results.to_beat[members])
        results.steps[members[~running]] = step
        beams, members = beams.of(running), members[running]
        _reorder(stepper, parents[running], n_places)
    return results.sorted(tree)


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


def _start(n_sentences: int) -> _Beams:
    """Give each sentence one empty hypothesis."""
    shape = (n_sentences, 1)
    return _Beams(np.zeros(shape), np.full(shape, BOS), np.full(shape, _ROOT))


def _extend(beams: _Beams, choice: Choice, beam: int, tree: "_Tree") -> tuple[_Beams, Ints]:
    """Take the best continuations of each sentence; also say from which place of the stepper each comes."""
    assert choice.best_tokens is not None
    assert choice.best_log_probs is not None
    n, width = beams.sums.shape
    n_candidates = choice.best_tokens.shape[-1]
    log_probs = choice.best_log_probs.reshape(n, -1).astype(np.float64)  # (B, W * C)
    sums = np.repeat(beams.sums, n_candidates, axis=1) + log_probs
    picked = np.argsort(-sums, axis=1, kind="stable")[:, :beam]  # (B, W)
    picked.sort(axis=1)  # children in the order of their parents: often nothing moves in the cache
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


class _Finished(NamedTuple):
    """A hypothesis that ended; `node` is where the tree holds it."""

    score: float
    log_prob: float
    node: int


class _Results:
    """The finished hypotheses that were among the n best of their sentence when they came."""

    def __init__(self, n_sentences: int, n_best: int) -> None:
        self._n_best = n_best
        self._finished: list[list[_Finished]] = [[] for _ in range(n_sentences)]
        self._best_scores = np.full((n_sentences, n_best), -np.inf)  # falling
        self.steps = np.zeros(n_sentences, dtype=np.int64)

    @property
    def to_beat(self) -> Sums:
        """The score a hypothesis must exceed to enter the n best of its sentence."""
        return np.asarray(self._best_scores[:, -1])

    def add(self, members: Ints, beams: _Beams, ended: Bools, scores: Sums) -> None:
        """Set aside the hypotheses that ended in this step."""
        enters = ended & (scores > self.to_beat[members][:, None])
        if not enters.any():
            return
        merged = np.concatenate([self._best_scores[members], np.where(enters, scores, -np.inf)], axis=1)
        self._best_scores[members] = -np.sort(-merged, axis=1)[:, : self._n_best]
        owners = members[np.nonzero(enters)[0]].tolist()
        columns = scores[enters].tolist(), beams.sums[enters].tolist(), beams.nodes[enters].tolist()
        for owner, score, log_prob, node in zip(owners, *columns, strict=True):
            self._finished[owner].append(_Finished(score, log_prob, node))

    def sorted(self, tree: _Tree) -> list[NBest]:
        """List the n best of each sentence; of equal scores the earlier one leads."""
        best = [sorted(finished, key=lambda f: -f.score)[: self._n_best] for finished in self._finished]
        nodes = np.array([f.node for finished in best for f in finished], dtype=np.int64)
        paths = iter(tree.paths(nodes))
        return [
            NBest([_hypothesis(f, *next(paths)) for f in finished], int(steps))
            for finished, steps in zip(best, self.steps, strict=True)
        ]


def _hypothesis(finished: _Finished, tokens: list[int], log_probs: list[float]) -> Hypothesis:
    closed = tokens[-1] == EOS
    return Hypothesis(tokens[:-1] if closed else tokens, finished.log_prob, finished.score, closed, log_probs)
