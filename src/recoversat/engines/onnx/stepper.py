"""Steps of the ONNX engine: what is remembered of a batch, and the arrays that go in and out of the step graph.

B sentences, S source, K segments, W rows of a sentence in one step, N real rows, M places of the cache,
L decoder layers, H heads, E = D / H, D model, P padded vocabulary, n alternatives. Imports no torch.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from threading import local
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints
from recoversat.engines.positions import Positions
from recoversat.vocab import PAD


class OnnxStepper:
    """A batch of sentences being written; its keys and values lie in one block that the graph writes into."""

    def __init__(
        self, session: Any, memory: Floats, memory_lengths: NDArray[np.int32],
        positions: Positions, bias: Floats, room: int, buffers: "Buffers", first_bias: Floats | None = None,
    ) -> None:  # fmt: skip
        """Take the source's keys and values (2L, B, H, S, E); `room` is how many rows most sentences need.

        `bias` (P,) is added to the logits, in the first step `first_bias`, where there is one.
        """
        self._binding = Binding(session)
        self._position: Floats = np.empty((1, 1, positions.d_model), dtype=np.float32)
        self._n_best: Ints = np.zeros(1, dtype=np.int64)
        self._scored: Bools = np.zeros(1, dtype=np.bool_)
        self._rows: _Rows | None = None
        self._later = None if first_bias is None else bias
        self._binding.inputs({"bias": bias if first_bias is None else first_bias})
        self._binding.inputs({"position": self._position, "n_best": self._n_best, "scored": self._scored})
        self._memory, self._memory_lengths = memory, memory_lengths
        self._positions, self._room, self._buffers = positions, room, buffers
        self._cache: Floats = np.empty((*memory.shape[:3], 0, memory.shape[4]), dtype=np.float32)  # (2L, B, H, M, E)
        self._filled: Ints = np.zeros(len(memory_lengths), dtype=np.int64)  # (B,) rows each sentence has in it
        self._sentences: Ints = np.arange(len(memory_lengths))  # (B,) whose source lies in each place
        self._steps = 0
        self._bind_memory()

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Append a row to each active segment and choose its next token; others get PAD."""
        asked = active.shape, active.tobytes(), n_best if scores or n_best else None
        if self._rows is None or self._rows.asked != asked:
            self._rows = _Rows(active, asked, self._buffers)
            self._bind_buffer(self._rows.buffer, asked[2])
        rows = self._rows
        if rows.width:
            if (needed := max(self._filled.tolist()) + rows.width) > self._cache.shape[3]:
                self._make_room(needed)
            rows.fill(tokens, forced, self._filled)
            self._filled += rows.counts
            np.maximum(self._filled, 1, out=self._lengths, casting="same_kind")
            self._position[:] = self._positions.at(self._steps)
            self._binding.run()
        self._steps += 1
        if self._later is not None:
            self._binding.inputs({"bias": self._later})
            self._later = None
        return rows.choice()

    def keep(self, which: Ints) -> None:
        which = np.asarray(which)
        if np.array_equal(self._sentences[which], self._sentences):
            self._move(which)
            return
        self._sentences, self._rows = self._sentences[which], None
        # np.take, since an array indexed like [:, which] does not lie in order, and nothing could be written in place
        self._memory, self._memory_lengths = np.take(self._memory, which, axis=1), self._memory_lengths[which]
        self._cache, self._filled = np.take(self._cache, which, axis=1), self._filled[which]
        self._bind_memory()
        self._bind_cache()

    def _move(self, which: Ints) -> None:
        """Let the written rows of hypotheses take each other's places; their sources are the same."""
        moved, used = np.flatnonzero(which != np.arange(len(which))), int(self._filled.max())
        self._cache[:, moved, :, :used] = self._cache[:, which[moved], :, :used]
        self._filled = self._filled[which]

    def _bind_buffer(self, buffer: "_Buffer", n_best: int | None) -> None:
        scored = n_best is not None
        self._binding.values(buffer.inputs, buffer.outputs if scored or self._scored[0] else buffer.chosen_only)
        self._n_best[0], self._scored[0] = n_best or 0, scored

    def _make_room(self, needed: int) -> None:
        """Let the cache grow by half or more, so that all copying together stays linear in the length."""
        used = self._cache.shape[3]
        room = max(needed, self._room, used * 3 // 2)
        cache: Floats = np.zeros((*self._cache.shape[:3], room, self._cache.shape[4]), dtype=np.float32)
        cache[:, :, :, :used] = self._cache
        self._cache = cache
        self._bind_cache()

    def _bind_cache(self) -> None:
        self._binding.in_place(layer_names("", len(self._cache) // 2), self._cache)

    def _bind_memory(self) -> None:
        self._lengths: NDArray[np.int32] = np.empty_like(self._memory_lengths)  # (B,) rows that each sentence sees
        names = layer_names("memory_", len(self._memory) // 2)
        self._binding.inputs({"lengths": self._lengths, "memory_lengths": self._memory_lengths})
        self._binding.inputs(dict(zip(names, self._memory, strict=True)))


_Asked = tuple[tuple[int, ...], bytes, int | None]  # (B, K), which of them write, n or None where nothing is scored


class _Rows:
    """The segments that write, packed to the left: a sentence has `counts` rows, the graph sees `width` of each."""

    def __init__(self, active: Bools, asked: _Asked, buffers: "Buffers") -> None:
        self.asked = asked
        self.counts: Ints = active.sum(axis=1)
        self.width = max(self.counts.tolist())
        self._spots = active.ravel().nonzero()[0]  # (N,) places among B * K
        self._no_scores: Floats = np.zeros(active.shape, dtype=np.float32)
        self.buffer = buffers.of(len(active), self.width, len(self._spots), asked[2])

    def fill(self, tokens: Ints, forced: Ints | None, filled: Ints) -> None:
        """Write the inputs of one step; `filled` says how many rows of each sentence the cache holds."""
        buffer = self.buffer
        if buffer.owner is not self:
            self._move_into(buffer)
        buffer.flat_tokens[buffer.rows] = tokens.ravel()[self._spots]
        if forced is not None or buffer.is_forced:
            buffer.wanted[:, 0] = FREE if forced is None else forced.ravel()[self._spots]
            buffer.is_forced = forced is not None
        np.add(filled[:, None, None], buffer.offsets, out=buffer.cache_places)

    def choice(self) -> Choice:
        """Put each row where its sentence and segment are; all other places hold PAD."""
        buffer, n_best = self.buffer, self.asked[2]
        tokens: Ints = self._spread(buffer.chosen, PAD)[..., 0]
        if n_best is None:
            return Choice(tokens, self._no_scores)
        log_probs: Floats = self._spread(buffer.log_probs, 0.0)[..., 0]
        if not n_best:
            return Choice(tokens, log_probs)
        best: Ints = self._spread(buffer.best_tokens, PAD)
        return Choice(tokens, log_probs, best, self._spread(buffer.best_log_probs, -np.inf))

    def _move_into(self, buffer: "_Buffer") -> None:
        """Write what stays while the same segments write, where others have had the buffer before."""
        buffer.owner = self
        if len(self._spots) < buffer.tokens.size:  # some sentences have fewer rows than the graph sees
            buffer.rows[:] = np.flatnonzero(np.arange(self.width) < self.counts[:, None])
            buffer.tokens[:], buffer.segments[:] = PAD, 0
        buffer.segments.reshape(-1)[buffer.rows] = self._spots % self.asked[0][1]

    def _spread(self, rows: NDArray[Any], elsewhere: float) -> NDArray[Any]:
        """Give rows (N, n) the shape (B, K, n)."""
        shape = *self.asked[0], rows.shape[1]
        if rows.size == math.prod(shape):
            return rows.reshape(shape).copy()
        spread = np.full(shape, elsewhere, dtype=rows.dtype)
        spread.reshape(-1, shape[2])[self._spots] = rows
        return spread


class _Buffer:
    """The small arrays that go in and out of a step of one shape, and the same as ONNX Runtime sees them."""

    def __init__(self, batch: int, width: int, n_rows: int, n_best: int | None, heads: int) -> None:
        self.owner: _Rows | None = None  # who has written into it last
        self.is_forced = False  # whether some tokens are wanted
        self.tokens: Ints = np.full((batch, width), PAD)
        self.segments: Ints = np.zeros((batch, width), dtype=np.int64)
        places: Ints = np.empty((batch, width, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
        places[..., 0], places[..., 1] = np.arange(batch)[:, None, None], np.arange(heads)
        self.rows: Ints = np.arange(n_rows)  # (N,) places among B * W
        self.wanted: Ints = np.full((n_rows, 1), FREE)
        self.chosen: Ints = np.empty((n_rows, 1), dtype=np.int64)
        scores, best = ((0, 0), (0, 0)) if n_best is None else ((n_rows, 1), (n_rows, n_best))
        self.log_probs: Floats = np.empty(scores, dtype=np.float32)
        self.best_tokens: Ints = np.empty(best, dtype=np.int64)
        self.best_log_probs: Floats = np.empty(best, dtype=np.float32)
        self.flat_tokens, self.cache_places, self.offsets = (
            self.tokens.ravel(),
            places[..., 2],
            np.arange(width)[:, None],
        )
        inputs = {"tokens": self.tokens, "segments": self.segments, "places": places, "rows": self.rows}
        self.inputs = _values(inputs | {"wanted": self.wanted})
        self.chosen_only = _values({"chosen": self.chosen})
        scored = _values({"log_probs": self.log_probs, "best_log_probs": self.best_log_probs})
        self.outputs = self.chosen_only | scored | _values({"best_tokens": self.best_tokens})


class Buffers(local):
    """The buffers of a thread: sentence after sentence, steps have the same few shapes."""

    _MOST = 64

    def __init__(self, heads: int) -> None:
        self._heads = heads
        self._buffers: dict[tuple[int, int, int, int | None], _Buffer] = {}

    def of(self, batch: int, width: int, n_rows: int, n_best: int | None) -> _Buffer:
        """Return the buffer of B, W, N and n, None where nothing is scored."""
        shape = batch, width, n_rows, n_best
        buffer = self._buffers.get(shape)
        if buffer is None:
            if len(self._buffers) == self._MOST:
                self._buffers.clear()
            buffer = self._buffers[shape] = _Buffer(*shape, self._heads)
        return buffer


class Binding:
    """Arrays bound to a session's inputs and outputs, kept alive as long as they are bound."""

    def __init__(self, session: Any) -> None:
        self._session, self._binding = session, session.io_binding()
        self._alive: dict[str, Any] = {}

    def inputs(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Let the session read these inputs from arrays; what is written into them later is seen."""
        for name, array in arrays.items():
            assert array.flags.c_contiguous, name  # else ONNX Runtime would work on a copy
            self._alive[name] = array
            self._binding.bind_cpu_input(name, array)

    def outputs(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Let the session write these outputs into arrays."""
        self.values({}, _values(arrays))

    def values(self, inputs: "Values", outputs: "Values") -> None:
        """Let the session read and write arrays that ONNX Runtime knows already."""
        for name, value in inputs.items():
            self._binding.bind_ortvalue_input(name, value)
        for name, value in outputs.items():
            self._binding.bind_ortvalue_output(name, value)
        self._alive |= inputs
        self._alive |= outputs

    def in_place(self, names: Sequence[str], arrays: Iterable[NDArray[Any]]) -> None:
        """Make each array an input and, as new_NAME, an output."""
        values = _values(dict(zip(names, arrays, strict=True)))
        self.values(values, {f"new_{name}": value for name, value in values.items()})

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)


Values = dict[str, Any]  # arrays as ONNX Runtime sees them


def _values(arrays: dict[str, NDArray[Any]]) -> Values:
    for name, array in arrays.items():
        assert array.flags.c_contiguous, name  # else ONNX Runtime would work on a copy
    return {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}


@cache
def layer_names(prefix: str, layers: int) -> tuple[str, ...]:
    """Name the keys and values of all layers in the order in which they lie in a block.

    >>> layer_names("memory_", 1)
    ('memory_key_0', 'memory_value_0')
    """
    return tuple(f"{prefix}{what}_{index}" for index in range(layers) for what in ("key", "value"))
