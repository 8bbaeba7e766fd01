"""The native engine: sentences side by side in the products and each by itself in all else, a call for many steps.

What it is asked to look into (forced tokens, alternatives, beams) it writes step by step with the same sums, so that
all ways of asking get the same words. B sentences, K segments, N rows, V vocabulary, n alternatives.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints
from recoversat.decoding.stopping import between_steps, in_threads
from recoversat.decoding.verify import AHEAD, ALL
from recoversat.engines.engine import Options, Sources, StepEngine
from recoversat.engines.memory import check_drafts, rows_within
from recoversat.engines.native._engine import KVCache, Sentence, Shortlist, Verify
from recoversat.engines.native.lists import load_shortlist
from recoversat.engines.native.model import MAX_BYTES, Found, NativeModel, Writing
from recoversat.engines.pairs import Pair, check_pairs, deleting_rows, equal_rows, scored
from recoversat.engines.vocabulary import TABLE, logit_biases
from recoversat.segments import Rows
from recoversat.vocab import EOS, PAD, TERMINATORS

_LEAST = np.finfo(np.float32).min
_ROWS = 32  # that take a step together where Python looks into it
_FEW = 3  # segments whose steps wait for weights, so that a list that has to be verified spares some
_LARGE = 8_000_000  # weights of the output matrix from which on all steps do
_Result = TypeVar("_Result")


class EncodedIds(list[int]):
    """Ids of a source with its keys and values."""

    memory: KVCache
    model: NativeModel


class NativeEngine(StepEngine):
    """Decode an exported int8 model in C++; each of `threads` takes a part of a batch.

    `max_memory`, in bytes, is as in the ONNX engine: half of it is for what sentences keep that are written at the same
    time, of which there are fewer then; nothing else of a batch is remembered, and long targets are not scored in one
    pass.
    """

    drafts_pay_from = math.inf  # all tokens of a sentence are one call; a draft and its passes are several

    def __init__(
        self, folder: Path, config: ModelConfig, threads: int = 1, max_memory: int | None = None,
        kit: str | None = None,
    ) -> None:  # fmt: skip
        self._config, self._threads = config, threads
        self._model = NativeModel(folder, config, kit)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        table = folder / TABLE
        self._shortlist = load_shortlist(table, config.vocab_size or 0) if table.is_file() else None
        size = self._model.places
        self._bias, self._single_bias = logit_biases(config.vocab_size or size, size)
        self._most_verified = _FEW if size * config.d_model < _LARGE else config.max_segments
        self._most_rows = None if max_memory is None else rows_within(max_memory, size, threads)
        self._max_bytes = MAX_BYTES if max_memory is None else max_memory // 2 // threads

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
        return self._each(lambda at: _encoded(sources[at], self._model), len(sources))

    def start(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> "NativeStepper":
        biases = [self._listed_bias(sources[at], k == 1, options.of([at])) for at, k in enumerate(n_segments.tolist())]
        begins = [_only(bias, options.begins, k) for bias, k in zip(biases, n_segments, strict=True)]
        return NativeStepper(self._model, [self._memory(source) for source in sources], biases, begins)

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        counts, step_by_step, forced = np.asarray(n_segments), super().decode, options.forced
        if options.top_tokens or options.together:
            watched = list(range(len(sources)))
        else:
            watched = [at for at, tokens in enumerate(forced or ()) if tokens]
        if not watched and (len(sources) == 1 or not self._pool):
            between_steps()
            return self._write(sources, counts, options)

        def some(places: list[int]) -> list[Decoded]:
            write = step_by_step if places[0] in watched else self._write
            return write([sources[at] for at in places], counts[places], options.of(places))

        others = sorted({*range(len(sources))}.difference(watched))
        widest = int(counts[watched].max()) if watched else 1
        return self._in_parts(some, self._dealt(others) + self._cut(watched, widest))

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        search = super().search

        def some(places: list[int]) -> list[Decoded]:
            return search([sources[at] for at in places], beam, options.of(places))

        return self._in_parts(some, self._cut(list(range(len(sources))), beam))

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

    def _write(self, sources: Sources, n_segments: Ints, options: Options) -> list[Decoded]:
        """Write sentences in one go, side by side."""
        counts = n_segments.tolist()
        biases = {single: self._biases(single, options) for single in {k == 1 for k in counts}}
        sentences = []
        for source, k, most in zip(sources, counts, options.most_steps(sources, n_segments).tolist(), strict=True):
            steps = [most] * k if options.lives is None else options.lives[:k].tolist()
            memory = source.memory if self._is_mine(source) else None
            sentences.append(Sentence(source, steps, *biases[k == 1], memory))
        shortlist, verify = self._used_shortlist(options), Verify.NO
        if options.shortlist and options.verified and len(counts) == 1 and counts[0] <= self._most_verified:
            shortlist, verify = self._shortlist, Verify.YES if options.lives is None else Verify.TIME_ONLY
        written = self._model.write(sentences, shortlist, options.scores, self._max_bytes, verify)
        if options.lives is not None:
            for sentence in written:
                sentence.segments = [[*segment[:-1], EOS] for segment in sentence.segments]
        return written

    def _biases(self, single: bool, options: Options) -> tuple[Floats, Floats]:
        """Return what is added to logits (V,), and what is in the first step."""
        bias = self._single_bias if single else self._bias
        if options.lives is not None:  # nothing else ends a segment (see FixedStepper)
            bias = _endless(bias)
        return bias, bias if options.begins is None or single else _only(bias, options.begins, 2)

    def _score_rows(self, source: Sequence[int], target: Rows, bias: Floats) -> list[float]:
        """Return the log-probability of every row's label, all rows in one pass."""
        sentence = Writing(self._memory(source), self._model.cache(), bias)
        found = self._model.rows(
            [sentence], [len(target.tokens)], target.tokens, target.segments, 0, causal=True, given=target.labels
        )
        each: list[float] = found.given.tolist()
        return each

    def _memory(self, source: Sequence[int]) -> KVCache:
        return source.memory if self._is_mine(source) else self._model.encoded(source)

    def _is_mine(self, source: Sequence[int]) -> TypeGuard[EncodedIds]:
        return isinstance(source, EncodedIds) and source.model is self._model

    def _used_shortlist(self, options: Options) -> Shortlist | None:
        """Return the shortlist where it is used without verification."""
        return self._shortlist if options.shortlist and not options.verified else None

    def _listed_bias(self, source: Sequence[int], single: bool, options: Options) -> Floats:
        """Return a bias (V,) that lets nothing but the list of a sentence be chosen, where it has one."""
        bias, shortlist = self._single_bias if single else self._bias, self._used_shortlist(options)
        forced = list(options.forced[0].values()) if options.forced else []
        pieces = shortlist.find(source, forced) if shortlist else []
        if not pieces:
            return bias
        narrow: Floats = np.full_like(bias, -np.inf)
        narrow[pieces] = bias[pieces]
        return narrow

    def _dealt(self, places: list[int]) -> list[list[int]]:
        """Deal sentences, which come longest first, to the threads."""
        return [part for first in range(self._threads) if (part := places[first :: self._threads])]

    def _cut(self, places: list[int], rows: int) -> list[list[int]]:
        """Cut a batch whose every sentence has so many rows into parts; where memory is bounded, one by one."""
        most = _ROWS // rows if self._most_rows is None else 1
        size = max(1, min(most, -(-len(places) // self._threads)))
        return [places[at : at + size] for at in range(0, len(places), size)]

    def _each(self, work: Callable[[int], _Result], n: int) -> list[_Result]:
        """Work on sentences one by one, in as many threads as there may be."""
        return self._in_parts(lambda places: [work(at) for at in places], [[at] for at in range(n)])

    def _in_parts(self, work: Callable[[list[int]], list[_Result]], parts: list[list[int]]) -> list[_Result]:
        """Work on parts of a batch, in as many threads as there may be; results come in the order of the batch."""

        def stoppable_work(places: list[int]) -> list[_Result]:
            between_steps()
            return work(places)

        done = in_threads(self._pool, work, parts) if self._pool and len(parts) > 1 else map(stoppable_work, parts)
        found: dict[int, _Result] = {}
        for places, results in zip(parts, done, strict=True):
            found |= zip(places, results, strict=True)
        return [found[place] for place in range(len(found))]


class NativeStepper:
    """Sentences that are written a step at a time, side by side."""

    def __init__(
        self, model: NativeModel, memories: list[KVCache], biases: list[Floats], first_biases: list[Floats]
    ) -> None:
        """Take what is added to the logits of each sentence (V,), and what is in the first step."""
        self._model, self._later, self._steps = model, biases, 0
        firsts = zip(memories, first_biases, strict=True)
        self._sentences = [Writing(memory, model.cache(), bias) for memory, bias in firsts]

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        wanted = (forced if forced is not None else np.full(tokens.shape, FREE))[active]  # (N,)
        looks = n_best > 0 or bool((wanted != FREE).any())
        each = [n for n in active.sum(axis=1).tolist() if n]
        sentences = [one for one, writes in zip(self._sentences, active, strict=True) if writes.any()]
        found, values, logits, _ = self._model.rows(
            sentences, each, tokens[active], np.nonzero(active)[1], self._steps, scores=scores, logits=looks
        )
        best: Ints = np.full((len(found), n_best), PAD, dtype=np.int64)
        likely: Floats = np.full((len(found), n_best), -np.inf, dtype=np.float32)
        end = 0
        for n in each if looks else ():
            own = slice(end, end := end + n)
            if n_best or (wanted[own] != FREE).any():
                every = _log_softmax(logits[own])
                found[own] = np.where(wanted[own] == FREE, found[own], wanted[own])
                values[own] = np.take_along_axis(every, found[own][:, None], axis=1)[:, 0]
                best[own] = _likeliest(every, n_best)
                likely[own] = np.take_along_axis(every, best[own], axis=1)
        self._begin_later()
        choice = Choice(_spread(found, active, PAD), _spread(values, active, 0.0))
        if not n_best:
            return choice
        return choice._replace(best_tokens=_spread(best, active, PAD), best_log_probs=_spread(likely, active, -np.inf))

    def _begin_later(self) -> None:
        """Let what may be chosen after the first step be chosen."""
        for one, bias in zip(self._sentences if not self._steps else (), self._later, strict=False):
            one.bias = bias
        self._steps += 1

    def keep(self, which: Ints) -> None:
        places = np.asarray(which).tolist()
        self._sentences = [
            replace(one, written=one.written.copy()) if at in places[:n] else one
            for n, at in enumerate(places)
            for one in [self._sentences[at]]
        ]


class NativeVerifier:
    """One sentence as K = 1 writes it; rows that were forgotten stay until others take their places."""

    ahead, most = AHEAD, ALL

    def __init__(self, model: NativeModel, memory: KVCache, bias: Floats) -> None:
        self._model, self._sentence = model, Writing(memory, model.cache(), bias)

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        found = self._append(tokens, scores)
        return found.best, found.log_probs

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        after = np.array([*tokens[1:], EOS], dtype=np.int64)  # whatever is after the last one is not asked for
        found = self._append(tokens, True, after)
        return found.best, found.log_probs, found.given[:-1]

    def _append(self, tokens: Sequence[int], scores: bool, given: Ints | None = None) -> Found:
        ids = np.array(tokens, dtype=np.int64)
        return self._model.rows(
            [self._sentence], [len(ids)], ids, np.zeros_like(ids), self._sentence.kept,
            causal=True, scores=scores, given=given,
        )  # fmt: skip

    def forget(self, rows: int) -> None:
        self._sentence.kept = rows


def _encoded(source: Sequence[int], model: NativeModel) -> EncodedIds:
    encoded = EncodedIds(source)
    encoded.memory, encoded.model = model.encoded(source), model
    return encoded


def _only(bias: Floats, allowed: Bools | None, k: int) -> Floats:
    """Return a bias (V,) that lets nothing but the allowed pieces be chosen; one segment begins as it likes."""
    if allowed is None or k == 1:
        return bias
    narrow = bias.copy()
    narrow[: len(allowed)][~allowed] = -np.inf
    return narrow


def _endless(bias: Floats) -> Floats:
    """Return a bias (V,) that lets no segment end by itself."""
    endless = bias.copy()
    endless[list(TERMINATORS)] = -np.inf
    return endless


def _likeliest(every: Floats, n: int) -> Ints:
    """Return the n likeliest pieces of each row (N, V), of equals the first: what a stable sort gives, but faster."""
    found: Ints = np.empty((len(every), n), dtype=np.int64)
    for row, out in zip(every if n else (), found, strict=False):
        among = np.flatnonzero(row >= np.partition(row, -n)[-n])
        out[:] = among[np.argsort(-row[among], kind="stable")[:n]]
    return found


def _spread(rows: NDArray[Any], active: Bools, elsewhere: float) -> NDArray[Any]:
    """Put rows (N, ...) where their sentences and segments are, (B, K, ...)."""
    spread = np.full((*active.shape, *rows.shape[1:]), elsewhere, dtype=rows.dtype)
    spread[active] = rows
    return spread


def _log_softmax(logits: Floats) -> Floats:
    """Return log-probabilities of rows (N, V); where nothing may be chosen, nothing has one."""
    best = np.maximum(logits.max(axis=1, keepdims=True), _LEAST)
    from_best = logits - best
    sums = np.exp(from_best).sum(axis=1, keepdims=True)
    normed: Floats = from_best - np.log(sums, out=np.zeros_like(sums), where=sums > 0)
    return normed
