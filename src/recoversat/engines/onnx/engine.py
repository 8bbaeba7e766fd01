"""The portable CPU engine: the two exported graphs on ONNX Runtime; torch is neither imported nor needed.

B sentences, S source, K segments, L decoder layers, H heads, E = D / H, D model, P padded vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.stopping import between_steps, in_threads
from recoversat.engines.engine import Options, Sources, StepEngine
from recoversat.engines.memory import FLOAT, check_drafts, rows_within
from recoversat.engines.onnx.graphs import Graphs
from recoversat.engines.onnx.rows import OnnxStepper, OnnxVerifier, score_rows
from recoversat.engines.pairs import Pair, check_pairs, deleting_rows, equal_rows, pair_batches, scored, side_by_side
from recoversat.engines.positions import Positions
from recoversat.engines.vocabulary import logit_biases, without
from recoversat.files.int8 import padded_size
from recoversat.segments import Rows

# How much goes through a graph at once: less is slower, more gains nothing and needs memory.
_ROWS = 160
_SOURCE_TOKENS = 512
_Result = TypeVar("_Result")


class EncodedIds(list[int]):
    """Ids of a source with its keys and values for every decoder layer, (2L, 1, H, S, E)."""

    memory: Floats


class OnnxEngine(StepEngine):
    """Decode with the graphs that `export/onnx.py` wrote.

    `threads` bounds the processor cores used: each decodes a part of the batch alone, so that a single sentence uses
    one. (Two cores inside each product were slower than one for a sentence and than this for a batch.)
    `max_memory`, in bytes, bounds what decoding needs beside the weights: half of it is for what sentences keep
    from step to step, half for the scores and rows of one step; a batch that needs more is decoded in parts, one
    after the other. ONNX Runtime then gives memory back at once.
    Shortlists are not used: all steps choose from the whole vocabulary.
    """

    drafts_pay_from = math.inf  # they spare a fifth at most, and of long sources only

    def __init__(
        self, folder: Path, precision: str, config: ModelConfig, threads: int = 1, max_memory: int | None = None
    ) -> None:
        self._config, self._max_memory = config, max_memory
        self._precision, self._threads = precision, threads
        self._graphs = Graphs(folder, precision, config, arena=max_memory is None)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        size = config.vocab_size or 0
        self._bias, self._single_bias = logit_biases(size, padded_size(size))
        self._positions = Positions(config.d_model)

    @property
    def max_segments(self) -> int:
        return self._config.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        return {"engine": "onnx", "precision": self._precision, "device": "cpu", "threads": self._threads}

    def start(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> OnnxStepper:
        """Encode the sources and project them for every decoder layer; of one segment are all sentences or none."""
        counts = set(n_segments.tolist())
        single, widest = 1 in counts, max(counts)
        assert not single or widest == 1
        memory, lengths = self._encode(sources)
        length = memory.shape[3]
        room = length + length // 5 + widest  # what is longer is rare, and makes the cache grow
        bias = self._bias_for(single)
        begin = None if options.begins is None or single else without(bias, ~options.begins)
        return OnnxStepper(self._graphs.step, memory, lengths, self._positions, bias, room, begin)

    def encode(self, sources: Sources) -> Sources:
        """Remember keys and values; where memory is bounded, sources are encoded whenever they are needed."""
        if self._max_memory is not None:
            return sources

        def part(places: list[int]) -> list[EncodedIds]:
            memory, _ = self._encode([sources[i] for i in places])
            return [_encoded(sources[i], memory[:, at : at + 1]) for at, i in enumerate(places)]

        return self._in_parts(part, _split(list(range(len(sources))), self._threads))

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        decode, n_segments = super().decode, np.asarray(n_segments)

        def part(places: list[int]) -> list[Decoded]:
            return decode([sources[i] for i in places], n_segments[places], options.of(places))

        return self._in_parts(part, self._parts(sources, n_segments))

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        search, ones = super().search, np.ones(len(sources), dtype=np.int64)

        def part(places: list[int]) -> list[Decoded]:
            return search([sources[i] for i in places], beam, options.of(places))

        return self._in_parts(part, self._parts(sources, ones, beam))

    def verifier(self, source: Sequence[int], room: int, options: Options = Options()) -> OnnxVerifier:
        memory, lengths = self._encode([source])
        return OnnxVerifier(self._graphs.step, memory, lengths, self._positions, self._single_bias, room)

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        """Run all rows of a target at once; what the memory is not made for goes a step at a time."""
        stepwise, most = super().score, self._rows_at_once()
        check_pairs(pairs)

        def part(places: list[int]) -> list[Decoded]:
            some = [pairs[i] for i in places]
            targets = [equal_rows(target, n_segments) for _, target in some]
            if self._max_memory is not None and len(targets[0].labels) > most:  # is alone
                return stepwise(some, n_segments)
            each = self._score_rows([source for source, _ in some], targets, n_segments == 1)
            return [scored(target, own.tolist()) for target, own in zip(targets, each, strict=True)]

        return self._in_parts(part, list(pair_batches(pairs, n_segments, most)))

    def deletions(self, pairs: Sequence[Pair]) -> list[list[float]]:
        most = self._rows_at_once()
        if self._max_memory is not None:
            check_drafts(pairs, most)
        check_pairs(pairs)

        def part(places: list[int]) -> list[list[float]]:
            targets = [deleting_rows(pairs[i][1]) for i in places]
            each = self._score_rows([pairs[i][0] for i in places], targets, single=False)
            return [np.exp(own[1:]).tolist() for own in each]

        return self._in_parts(part, list(pair_batches(pairs, 1, most)))

    def _score_rows(self, sources: Sources, targets: Sequence[Rows], single: bool) -> list[Floats]:
        """Return the log-probability of every row's label, target by target."""
        memory, lengths = self._encode(sources)
        log_probs = score_rows(self._graphs.step, memory, lengths, self._positions, self._bias_for(single), targets)
        return np.split(log_probs, np.cumsum([len(target.labels) for target in targets])[:-1])

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

    def _parts(self, sources: Sources, n_segments: Ints, beam: int = 1) -> list[list[int]]:
        """Cut a batch into equal parts, one or more a thread, within the bounds on rows and memory."""
        counts, parts = n_segments.tolist(), []
        for single in (False, True):
            if not (group := [place for place, k in enumerate(counts) if (k == 1) is single]):
                continue
            widest = max(counts[place] for place in group)
            at_once = max(1, self._rows_at_once() // (widest * beam))
            if self._max_memory is not None:
                kept = beam * self._bytes_kept(max(len(sources[place]) for place in group), widest)
                at_once = min(at_once, max(1, self._max_memory // 2 // (kept * self._threads)))
            rounds = -(-len(group) // (at_once * self._threads))
            parts += _split(group, rounds * self._threads)
        return parts

    def _rows_at_once(self) -> int:
        if self._max_memory is None:
            return _ROWS
        return min(_ROWS, rows_within(self._max_memory, len(self._bias), self._threads))

    def _bytes_kept(self, source_length: int, n_segments: int) -> int:
        """Estimate what a sentence keeps from step to step: of its source, and of rows while the cache grows."""
        n_rows = source_length + 2 * (source_length + 2 * n_segments)
        return 2 * self._config.decoder_layers * self._config.d_model * n_rows * FLOAT

    def _bias_for(self, single: bool) -> Floats:
        return self._single_bias if single else self._bias

    def _encode(self, sources: Sources) -> tuple[Floats, NDArray[np.int32]]:
        """Return keys and values of the sources for every decoder layer (2L, B, H, S, E), and their lengths."""
        if remembered := [source.memory for source in sources if isinstance(source, EncodedIds)]:
            assert len(remembered) == len(sources)
            return _joined(remembered), np.array([memory.shape[3] for memory in remembered], dtype=np.int32)
        tokens = side_by_side(sources)  # (B, S)
        batch, length = tokens.shape
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        at_once = max(1, _SOURCE_TOKENS // max(1, length))
        if batch <= at_once:
            return self._run_encoder(tokens, lengths), lengths
        heads, size = self._config.n_heads, self._config.d_model // self._config.n_heads
        memory: Floats = np.zeros((2 * self._config.decoder_layers, batch, heads, length, size), dtype=np.float32)
        start = 0
        while start < batch:  # sources come longest first: shorter ones need not be as long as the first
            own = int(lengths[start:].max())
            part = slice(start, start + max(1, _SOURCE_TOKENS // max(1, own)))
            memory[:, part, :, :own] = self._run_encoder(tokens[part, :own], lengths[part])
            start = part.stop
        return memory, lengths

    def _run_encoder(self, tokens: Ints, lengths: NDArray[np.int32]) -> Floats:
        """Return keys and values in memory that is ONNX Runtime's: nothing is copied."""
        positions = self._positions.first(tokens.shape[1])[None]
        [memory] = self._graphs.encoder.run(["memory"], {"tokens": tokens, "positions": positions, "lengths": lengths})
        return np.asarray(memory)


def _split(places: list[int], n: int) -> list[list[int]]:
    """Cut a list into n parts as equal as can be, the first ones longer by one; no part is empty.

    >>> _split([3, 4, 5, 6, 7], 2), _split([3], 2)
    ([[3, 4, 5], [6, 7]], [[3]])
    """
    size, longer = divmod(len(places), n)
    cuts = [part * size + min(part, longer) for part in range(n + 1)]
    return [places[start:end] for start, end in pairwise(cuts) if start < end]


def _encoded(source: Sequence[int], memory: Floats) -> EncodedIds:
    """Keep a source with its part of the batch's memory, without the padding."""
    encoded = EncodedIds(source)
    encoded.memory = np.ascontiguousarray(memory[:, :, :, : len(source)])
    return encoded


def _joined(memories: list[Floats]) -> Floats:
    """Put the memories of sources side by side, zeros where one is shorter than the longest."""
    if len(memories) == 1:
        return memories[0]
    longest = max(memory.shape[3] for memory in memories)
    layers, _, heads, _, size = memories[0].shape
    joined: Floats = np.zeros((layers, len(memories), heads, longest, size), dtype=np.float32)
    for place, memory in enumerate(memories):
        joined[:, place, :, : memory.shape[3]] = memory[:, 0]
    return joined
