"""The fast CPU engine: the two exported graphs on ONNX Runtime; torch is neither imported nor needed.

B sentences, S source, K segments, W rows of a sentence in one step, N real rows, M places of the cache,
L decoder layers, H heads, E = D / H, D model, P padded vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints, Stepper
from recoversat.engines.engine import pad_sources
from recoversat.engines.split_stepper import SplitStepper
from recoversat.errors import UserError
from recoversat.vocab import DEL, NEVER_EMITTED, PAD

_ROWS = 128  # rows a step: more gain nothing, but their scores (rows * vocabulary) fall out of the caches


class OnnxEngine:
    """Decode with the graphs that `export_model` wrote.

    `threads` bounds the processor cores used (1 is best for single sentences). `max_memory`, in bytes, bounds
    what decoding needs beside the weights: a batch that needs more is decoded in parts, one sentence at least.
    int8 rows share one scale in a product, so neighbours in a batch may move a score in its last digits.
    """

    def __init__(
        self, folder: Path, config: ModelConfig, threads: int = 1, max_memory: int | None = None
    ) -> None:
        self._config, self._max_memory = config, max_memory
        self._encoder = _session(folder / "encoder.onnx", threads)
        self._step = _session(folder / "step.onnx", threads)
        size = next(value.shape[0] for value in self._step.get_inputs() if value.name == "bias")
        assert config.vocab_size is not None
        self._bias: Floats = np.zeros(size, dtype=np.float32)
        self._bias[[*NEVER_EMITTED, *range(config.vocab_size, size)]] = -np.inf
        self._single_bias = self._bias.copy()
        self._single_bias[DEL] = -np.inf  # one segment has nothing to delete
        self._positions = sinusoids(256, config.d_model)

    @property
    def max_segments(self) -> int:
        return self._config.max_segments

    def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> Stepper:
        """Encode the sources and project them for every decoder layer."""
        single = np.asarray(n_segments) == 1
        parts = [
            (self._start([sources[place] for place in places], int(n_segments[places].max())), places)
            for group in (np.flatnonzero(~single), np.flatnonzero(single))
            for places in self._parts(sources, n_segments, group)
        ]
        return parts[0][0] if len(parts) == 1 else SplitStepper(parts)

    def positions(self, length: int) -> Floats:
        """Return the positional encoding of the first `length` positions, at least."""
        if length > len(self._positions):
            self._positions = sinusoids(2 * length, self._config.d_model)
        return self._positions

    def _parts(self, sources: Sequence[Sequence[int]], n_segments: Ints, group: Ints) -> list[Ints]:
        """Cut a group of sentences into parts that stay within the bounds on rows and memory."""
        if not len(group):
            return []
        widest = int(n_segments[group].max())
        at_once = max(1, _ROWS // widest)
        if self._max_memory is not None:
            longest = max(len(sources[place]) for place in group)
            at_once = min(at_once, max(1, self._max_memory // self._bytes_needed(longest, widest)))
        return [group[start : start + at_once] for start in range(0, len(group), at_once)]

    def _bytes_needed(self, length: int, n_segments: int) -> int:
        """Estimate from above what one sentence needs: scores, caches, and rows inside the graphs."""
        config = self._config
        scores = 3 * n_segments * len(self._bias)
        caches = 2 * config.decoder_layers * config.d_model * (3 * (length + 2 * n_segments) + length)
        inside = 8 * max(length, n_segments) * max(config.d_model, config.d_hidden)
        return 4 * (scores + caches + inside + config.n_heads * length * length)

    def _start(self, sources: Sequence[Sequence[int]], n_segments: int) -> "OnnxStepper":
        config = self._config
        tokens = pad_sources(sources)  # (B, S)
        batch, length = tokens.shape
        heads = config.n_heads
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        shape = (2 * config.decoder_layers, batch, heads, length, config.d_model // heads)
        memory: Floats = np.empty(shape, dtype=np.float32)  # keys and values of all layers in one block
        binding = _Binding(self._encoder)
        binding.inputs({"tokens": tokens, "positions": self.positions(length)[None, :length], "lengths": lengths})
        binding.outputs(dict(zip(_names("memory_", config), memory, strict=True)))
        binding.run()
        bias = self._single_bias if n_segments == 1 else self._bias
        return OnnxStepper(self, self._step, config, memory, lengths, n_segments, bias)


class OnnxStepper:
    """A batch of sentences being written; what it remembers lies in two blocks that the graph writes into."""

    def __init__(
        self, engine: OnnxEngine, session: Any, config: ModelConfig,
        memory: Floats, memory_lengths: NDArray[np.int32], n_segments: int, bias: Floats,
    ) -> None:  # fmt: skip
        self._engine, self._config, self._bias = engine, config, bias
        self._binding = _Binding(session)
        self._memory, self._memory_lengths = memory, memory_lengths
        self._room = memory.shape[3] + 2 * n_segments  # what most sentences need
        self._cache: Floats = np.empty((*memory.shape[:3], 0, memory.shape[4]), dtype=np.float32)  # (2L, B, H, M, E)
        self._filled: Ints = np.zeros(len(memory_lengths), dtype=np.int64)  # (B,) rows each sentence has in it
        self._steps = 0
        self._bind_memory()

    def step(self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0) -> Choice:
        """Append a row to each active segment and choose its next token; others get PAD."""
        counts = active.sum(axis=1)
        width = int(counts.max())
        order = np.argsort(~active, axis=1, kind="stable")[:, :width]  # active segments first, (B, W)
        real = np.arange(width) < counts[:, None]  # (B, W)
        sentence, segment = np.nonzero(real)[0], order[real]  # (N,)
        wanted = np.full(len(segment), FREE) if forced is None else forced[sentence, segment]
        scored = _Scored.empty(len(segment), n_best)
        if width:
            self._make_room(int(self._filled.max()) + width)
            self._binding.inputs({
                "tokens": np.take_along_axis(tokens, order, axis=1),
                "segments": order,
                "position": self._engine.positions(self._steps + 1)[None, self._steps : self._steps + 1],
                "places": self._places(width),
                "lengths": np.maximum(self._filled + counts, 1).astype(np.int32),
                "rows": np.flatnonzero(real),
                "wanted": wanted[:, None],
                "n_best": np.array([n_best]),
            })  # fmt: skip
            self._binding.outputs(vars(scored))
            self._binding.run()
        self._filled = self._filled + counts
        self._steps += 1
        return scored.spread(tokens.shape, sentence, segment)

    def keep(self, which: Ints) -> None:
        """Drop or reorder members of the batch."""
        which = np.asarray(which)
        # np.take, since an array indexed like [:, which] does not lie in order, and nothing could be written in place
        self._memory, self._memory_lengths = np.take(self._memory, which, axis=1), self._memory_lengths[which]
        self._cache, self._filled = np.take(self._cache, which, axis=1), self._filled[which]
        self._bind_memory()
        self._bind_cache()

    def _places(self, width: int) -> Ints:
        """Say where in the cache (sentence, head, place) each row of this step goes."""
        batch, heads = len(self._filled), self._config.n_heads
        places = np.empty((batch, width, heads, 3), dtype=np.int64)
        places[..., 0] = np.arange(batch)[:, None, None]
        places[..., 1] = np.arange(heads)
        places[..., 2] = (self._filled[:, None] + np.arange(width))[:, :, None]
        return places

    def _make_room(self, needed: int) -> None:
        """Let the cache grow by half or more, so that all copying together stays linear in the length.

        The first step gets exactly what it needs; from then on, places not yet written hold a copy of the
        first key, so that their hidden scores are no larger than real ones, and the value 0.
        """
        used = self._cache.shape[3]
        if needed <= used:
            return
        room = max(needed, self._room, used * 3 // 2) if used else needed
        cache: Floats = np.zeros((*self._cache.shape[:3], room, self._cache.shape[4]), dtype=np.float32)
        cache[:, :, :, :used] = self._cache
        if used:
            cache[::2, :, :, used:] = self._cache[::2, :, :, :1]
        self._cache = cache
        self._bind_cache()

    def _bind_cache(self) -> None:
        for name, layer in zip(_names("", self._config), self._cache, strict=True):
            self._binding.in_place(name, f"new_{name}", layer)

    def _bind_memory(self) -> None:
        self._binding.inputs(dict(zip(_names("memory_", self._config), self._memory, strict=True)))
        self._binding.inputs({"memory_lengths": self._memory_lengths, "bias": self._bias})


@dataclass
class _Scored:
    """What the step graph puts out for the real rows, under the names it has there."""

    chosen: Ints  # (N, 1)
    log_probs: Floats  # (N, 1)
    best_tokens: Ints  # (N, n)
    best_log_probs: Floats  # (N, n)

    @classmethod
    def empty(cls, rows: int, n_best: int) -> "_Scored":
        def ints(n: int) -> Ints:
            return np.empty((rows, n), dtype=np.int64)

        def floats(n: int) -> Floats:
            return np.empty((rows, n), dtype=np.float32)

        return cls(ints(1), floats(1), ints(n_best), floats(n_best))

    def spread(self, shape: tuple[int, ...], sentence: Ints, segment: Ints) -> Choice:
        """Put each row where its sentence and segment are; all other places hold PAD."""
        tokens, log_probs = np.full(shape, PAD), np.zeros(shape, dtype=np.float32)
        tokens[sentence, segment], log_probs[sentence, segment] = self.chosen[:, 0], self.log_probs[:, 0]
        n_best = self.best_tokens.shape[1]
        if not n_best:
            return Choice(tokens, log_probs)
        best_tokens: Ints = np.full((*shape, n_best), PAD)
        best_log_probs: Floats = np.full((*shape, n_best), -np.inf, dtype=np.float32)
        best_tokens[sentence, segment], best_log_probs[sentence, segment] = self.best_tokens, self.best_log_probs
        return Choice(tokens, log_probs, best_tokens, best_log_probs)


class _Binding:
    """Arrays bound to a session's inputs and outputs, kept alive as long as they are bound."""

    def __init__(self, session: Any) -> None:
        self._session, self._binding = session, session.io_binding()
        self._alive: dict[str, Any] = {}

    def inputs(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, array in arrays.items():
            self._binding.bind_ortvalue_input(name, self._value(name, np.ascontiguousarray(array)))

    def outputs(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Let the session write these outputs into arrays."""
        for name, array in arrays.items():
            self._binding.bind_ortvalue_output(name, self._value(name, array))

    def in_place(self, name: str, output: str, array: NDArray[Any]) -> None:
        """Make one array both input and output."""
        value = self._value(name, array)
        self._binding.bind_ortvalue_input(name, value)
        self._binding.bind_ortvalue_output(output, value)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def _value(self, name: str, array: NDArray[Any]) -> Any:
        assert array.flags.c_contiguous, name  # else ONNX Runtime would work on a copy
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        self._alive[name] = value
        return value


def sinusoids(length: int, d_model: int) -> Floats:
    """Return the paper's positional encoding (Appendix A): sines at even, cosines at odd places.

    >>> sinusoids(2, 2).round(2).tolist()
    [[0.0, 1.0], [0.8399999737739563, 0.5400000214576721]]
    """
    angles = np.arange(length)[:, None] * 10_000.0 ** (-np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model).astype(np.float32)


def _names(prefix: str, config: ModelConfig) -> list[str]:
    return [f"{prefix}{what}_{index}" for index in range(config.decoder_layers) for what in ("key", "value")]


def _session(path: Path, threads: int) -> Any:
    if not path.is_file():
        raise UserError(f"{path.parent}: not an exported model ({path.name} is missing); run 'recoversat export'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # the graphs are fused by hand; all that is left is to transpose the output matrix once
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
