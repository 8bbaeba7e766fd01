"""The native engine: every sentence by itself, one call of the library for all its steps.

What it is asked to look into (forced tokens, alternatives, beams) it writes step by step with the same sums, so that
all ways of asking get the same words. B sentences, K segments, N rows, V vocabulary, n alternatives.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard, TypeVar

import numpy as np

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints
from recoversat.decoding.stopping import between_steps, in_threads
from recoversat.decoding.verify import AHEAD, ALL
from recoversat.engines.engine import Options, Sources, StepEngine
from recoversat.engines.memory import check_drafts, rows_within
from recoversat.engines.native.model import NativeModel, Pasts
from recoversat.engines.pairs import Pair, check_pairs, deleting_rows, equal_rows, scored
from recoversat.engines.vocabulary import TABLE, Shortlist, logit_biases
from recoversat.segments import Rows
from recoversat.vocab import EOS, PAD, TERMINATORS

_Result = TypeVar("_Result")


class EncodedIds(list[int]):
    """Ids of a source with its keys and values."""

    memory: Pasts


class NativeEngine(StepEngine):
    """Decode an exported int8 model in C++; `threads` sentences are written at the same time, however many there are.

    `max_memory`, in bytes, is as in the ONNX engine: no more is remembered of a batch, and long targets are not scored
    in one pass.
    """

    def __init__(
        self, folder: Path, config: ModelConfig, threads: int = 1, max_memory: int | None = None,
        kit: str | None = None,
    ) -> None:  # fmt: skip
        self._config, self._threads = config, threads
        self._model = NativeModel(folder, config, kit)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        table = folder.parent / TABLE
        self._lists = Shortlist.load(table, config.vocab_size or 0) if table.is_file() else None
        size = self._model.places
        self._bias, self._single_bias = logit_biases(config.vocab_size or size, size)
        self._most_rows = None if max_memory is None else rows_within(max_memory, size, threads)

    @property
    def max_segments(self) -> int:
        return self._config.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        kind = {"engine": f"native {self._model.kit}", "precision": "int8", "device": "cpu"}
        return {**kind, "threads": self._threads}

    def encode(self, sources: Sources) -> Sources:
        """Remember keys and values; where memory is bounded, sources are encoded whenever they are needed."""
        if self._most_rows is not None:
            return sources
        return self._each(lambda at: _encoded(sources[at], self._model.encoded(sources[at])), len(sources))

    def start(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> "NativeStepper":
        biases = [self._listed_bias(sources[at], k == 1, options.of([at])) for at, k in enumerate(n_segments.tolist())]
        begins = [_only(bias, options.begins, k) for bias, k in zip(biases, n_segments, strict=True)]
        return NativeStepper(self._model, [self._memory(source) for source in sources], biases, begins)

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        counts, step_by_step = np.asarray(n_segments), super().decode

        def one(at: int) -> Decoded:
            own, k = options.of([at]), int(counts[at])
            if own.forced or own.top_tokens or own.together or (own.begins is not None and k > 1):
                return step_by_step([sources[at]], counts[[at]], own)[0]
            return self._write(sources[at], k, own)

        return self._each(one, len(sources))

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        search = super().search
        return self._each(lambda at: search([sources[at]], beam, options.of([at]))[0], len(sources))

    def verifier(self, source: Sequence[int], room: int, options: Options = Options()) -> "NativeVerifier":
        return NativeVerifier(self._model, self._memory(source), self._listed_bias(source, True, options))

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        stepwise, most = super().score, self._most_rows
        if n_segments > 1:  # rows see those of the same step, not only those before them
            return stepwise(pairs, n_segments)
        check_pairs(pairs)
        targets = [equal_rows(target, 1) for _, target in pairs]

        def one(at: int) -> Decoded:
            if most is not None and len(targets[at].labels) > most:
                return stepwise([pairs[at]])[0]
            return scored(targets[at], self._score_rows(pairs[at][0], targets[at], self._single_bias))

        return self._each(one, len(pairs))

    def deletions(self, pairs: Sequence[Pair]) -> list[list[float]]:
        check_pairs(pairs)
        if self._most_rows is not None:
            check_drafts(pairs, self._most_rows)

        def one(at: int) -> list[float]:
            source, target = pairs[at]
            return [float(np.exp(value)) for value in self._score_rows(source, deleting_rows(target), self._bias)[1:]]

        return self._each(one, len(pairs))

    def _write(self, source: Sequence[int], k: int, options: Options) -> Decoded:
        (most,) = options.most_steps([source], np.array([k])).tolist()
        bias, members = self._single_bias if k == 1 else self._bias, self._members(source, options)
        steps = np.full(k, most)
        if options.lives is not None:  # nothing else ends a segment (see FixedStepper)
            steps, bias = options.lives[:k], bias.copy()
            bias[list(TERMINATORS)] = -np.inf
        pieces = None if members is None else np.flatnonzero(members)
        memory = source.memory if self._is_mine(source) else None
        written = self._model.write(source, memory, steps, bias, pieces, options.scores)
        if options.lives is not None:
            written.segments = [[*segment[:-1], EOS] for segment in written.segments]
        return written

    def _score_rows(self, source: Sequence[int], target: Rows, bias: Floats) -> list[float]:
        """Return the log-probability of every row's label, all rows in one pass."""
        *_, logits = self._model.rows(
            self._memory(source), self._model.pasts(), 0, target.tokens, target.segments, 0, bias,
            causal=True, scores=False, logits=True,
        )  # fmt: skip
        found: list[float] = np.take_along_axis(_log_softmax(logits), target.labels[:, None], axis=1)[:, 0].tolist()
        return found

    def _memory(self, source: Sequence[int]) -> Pasts:
        return source.memory if self._is_mine(source) else self._model.encoded(source)

    def _is_mine(self, source: Sequence[int]) -> TypeGuard[EncodedIds]:
        return isinstance(source, EncodedIds) and source.memory.model() is self._model

    def _members(self, source: Sequence[int], options: Options) -> Bools | None:
        """Return the list of a sentence (V,) where it counts as it is: to verify one would cost what it saves."""
        if not self._lists or not options.shortlist or options.verified:
            return None
        (members,) = self._lists.members([source], options.forced)
        return None if self._lists.is_too_long(members) or not members.any() else members

    def _listed_bias(self, source: Sequence[int], single: bool, options: Options) -> Floats:
        bias, members = self._single_bias if single else self._bias, self._members(source, options)
        return bias if members is None else _only(bias, members, 2)

    def _each(self, work: Callable[[int], _Result], n: int) -> list[_Result]:
        """Work on sentences, in as many threads as there may be."""

        def stoppable_work(at: int) -> _Result:
            between_steps()
            return work(at)

        return in_threads(self._pool, work, range(n)) if self._pool and n > 1 else list(map(stoppable_work, range(n)))


class NativeStepper:
    """Sentences that are written a step at a time."""

    def __init__(
        self, model: NativeModel, memories: list[Pasts], biases: list[Floats], first_biases: list[Floats]
    ) -> None:
        """Take what is added to the logits of each sentence (V,), and what is in the first step."""
        self._model, self._memories, self._biases, self._first = model, memories, biases, first_biases
        self._written, self._kept = [model.pasts() for _ in memories], [0] * len(memories)
        self._steps = 0

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        shape, wanted = tokens.shape, forced if forced is not None else np.full(tokens.shape, FREE)
        chosen: Ints = np.full(shape, PAD, dtype=np.int64)
        log_probs: Floats = np.zeros(shape, dtype=np.float32)
        best: Ints = np.full((*shape, n_best), PAD, dtype=np.int64)
        likely: Floats = np.full((*shape, n_best), -np.inf, dtype=np.float32)
        for at, rows in enumerate(np.flatnonzero(own) for own in active):
            if len(rows):
                look = n_best > 0 or bool((wanted[at, rows] != FREE).any())
                bias = (self._biases if self._steps else self._first)[at]
                found, values, logits = self._model.rows(
                    self._memories[at], self._written[at], self._kept[at], tokens[at, rows], rows, self._steps, bias,
                    scores=scores, logits=look,
                )  # fmt: skip
                self._kept[at] += len(rows)
                if look:
                    every = _log_softmax(logits)
                    found = np.where(wanted[at, rows] == FREE, found, wanted[at, rows])
                    values = np.take_along_axis(every, found[:, None], axis=1)[:, 0]
                    best[at, rows] = np.argsort(-every, axis=1, kind="stable")[:, :n_best]
                    likely[at, rows] = np.take_along_axis(every, best[at, rows], axis=1)
                chosen[at, rows], log_probs[at, rows] = found, values
        self._steps += 1
        return Choice(chosen, log_probs, best, likely) if n_best else Choice(chosen, log_probs)

    def keep(self, which: Ints) -> None:
        places = np.asarray(which).tolist()
        self._written = [
            self._model.copied(self._written[at]) if at in places[:n] else self._written[at]
            for n, at in enumerate(places)
        ]
        self._kept, self._memories = [self._kept[at] for at in places], [self._memories[at] for at in places]
        self._biases, self._first = [self._biases[at] for at in places], [self._first[at] for at in places]


class NativeVerifier:
    """One sentence as K = 1 writes it; rows that were forgotten stay until others take their places."""

    ahead, most = AHEAD, ALL

    def __init__(self, model: NativeModel, memory: Pasts, bias: Floats) -> None:
        self._model, self._memory, self._bias = model, memory, bias
        self._written, self._rows = model.pasts(), 0

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        return self._append(tokens, scores, logits=False)[:2]

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        best, likely, logits = self._append(tokens, True, logits=True)
        given = np.take_along_axis(_log_softmax(logits[:-1]), np.array(tokens[1:], dtype=np.int64)[:, None], axis=1)
        return best, likely, given[:, 0]

    def _append(self, tokens: Sequence[int], scores: bool, logits: bool) -> tuple[Ints, Floats, Floats]:
        ids, first = np.array(tokens, dtype=np.int64), self._rows
        self._rows += len(ids)
        return self._model.rows(
            self._memory, self._written, first, ids, np.zeros_like(ids), first, self._bias,
            causal=True, scores=scores, logits=logits,
        )  # fmt: skip

    def forget(self, rows: int) -> None:
        self._rows = rows


def _encoded(source: Sequence[int], memory: Pasts) -> EncodedIds:
    encoded = EncodedIds(source)
    encoded.memory = memory
    return encoded


def _only(bias: Floats, allowed: Bools | None, k: int) -> Floats:
    """Return a bias (V,) that lets nothing but the allowed pieces be chosen; one segment begins as it likes."""
    if allowed is None or k == 1:
        return bias
    narrow = bias.copy()
    narrow[: len(allowed)][~allowed] = -np.inf
    return narrow


def _log_softmax(logits: Floats) -> Floats:
    """Return log-probabilities of rows (N, V)."""
    from_best = logits - logits.max(axis=1, keepdims=True)
    normed: Floats = from_best - np.log(np.exp(from_best).sum(axis=1, keepdims=True))
    return normed
