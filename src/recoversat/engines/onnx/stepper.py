"""Steps of the ONNX engine: what is remembered of a batch, and the arrays that go in and out of the step graph.

B sentences, S source, K segments, W rows of a sentence in one step, N real rows, M places of the cache,
L decoder layers, H heads, E = D / H, D model, P padded vocabulary, n alternatives. Imports no torch.
"""

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints
from recoversat.engines.onnx.shortlist import Vocabulary
from recoversat.vocab import PAD


class OnnxStepper:
    """A batch of sentences being written; its keys and values lie in one block that the graph writes into."""

    def __init__(
        self, session: Any, memory: Floats, memory_lengths: NDArray[np.int32],
        positions: "Positions", vocabulary: Vocabulary, room: int,
    ) -> None:  # fmt: skip
        """Take the source's keys and values (2L, B, H, S, E); `room` is how many rows most sentences need."""
        self._binding = Binding(session)
        self._position: Floats = np.empty((1, 1, positions.d_model), dtype=np.float32)
        self._n_best: Ints = np.zeros(1, dtype=np.int64)
        self._scored: Bools = np.zeros(1, dtype=np.bool_)
        self._vocabulary = vocabulary
        self._binding.inputs(vocabulary.inputs | {"position": self._position})
        self._binding.inputs({"n_best": self._n_best, "scored": self._scored})
        self._memory, self._memory_lengths = memory, memory_lengths
        self._positions, self._room = positions, room
        self._cache: Floats = np.empty((*memory.shape[:3], 0, memory.shape[4]), dtype=np.float32)  # (2L, B, H, M, E)
        self._filled: Ints = np.zeros(len(memory_lengths), dtype=np.int64)  # (B,) rows each sentence has in it
        self._sentences: Ints = np.arange(len(memory_lengths))  # (B,) whose source lies in each place
        self._steps = 0
        self._frame: _Frame | None = None
        self._bind_memory()

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Append a row to each active segment and choose its next token; others get PAD."""
        frame = self._frame_of(active, n_best, scores or n_best > 0)
        if frame.width:
            self._make_room(int(self._filled.max()) + frame.width)
            frame.fill(tokens, None if forced is None else self._vocabulary.places(forced), self._filled)
            self._position[:] = self._positions.at(self._steps)
            self._filled += frame.counts
            self._binding.run()
        self._steps += 1
        return frame.choice(self._vocabulary)

    def keep(self, which: Ints) -> None:
        """Drop or reorder members of the batch."""
        which = np.asarray(which)
        if np.array_equal(self._sentences[which], self._sentences):
            self._move(which)
            return
        self._sentences = self._sentences[which]
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

    def _frame_of(self, active: Bools, n_best: int, scored: bool) -> "_Frame":
        """Return the arrays of the step before if the same segments are active, else new ones."""
        if self._frame is None or not self._frame.fits(active, n_best, scored):
            outputs = _Frame.OUTPUTS if scored or self._scored[0] else _Frame.OUTPUTS[:1]
            self._n_best[0], self._scored[0] = n_best, scored
            self._frame = _Frame(active, n_best, scored, heads=self._cache.shape[2])
            self._binding.inputs({name: getattr(self._frame, name) for name in _Frame.INPUTS})
            self._binding.outputs({name: getattr(self._frame, name) for name in outputs})
            self._binding.inputs(self._vocabulary.rows(self._sentences[self._frame.owners]))
        return self._frame

    def _make_room(self, needed: int) -> None:
        """Let the cache grow by half or more, so that all copying together stays linear in the length."""
        used = self._cache.shape[3]
        if needed <= used:
            return
        room = max(needed, self._room, used * 3 // 2)
        cache: Floats = np.zeros((*self._cache.shape[:3], room, self._cache.shape[4]), dtype=np.float32)
        cache[:, :, :, :used] = self._cache
        self._cache = cache
        self._bind_cache()

    def _bind_cache(self) -> None:
        for name, layer in zip(layer_names("", len(self._cache) // 2), self._cache, strict=True):
            self._binding.in_place(name, f"new_{name}", layer)

    def _bind_memory(self) -> None:
        names = layer_names("memory_", len(self._memory) // 2)
        self._binding.inputs(dict(zip(names, self._memory, strict=True)) | {"memory_lengths": self._memory_lengths})


class _Frame:
    """Everything small that goes in and out of a step, bound once and used again while the same segments write.

    Segments that write are packed to the left: a sentence has `counts` rows, the graph sees `width` of each.
    """

    INPUTS = ("tokens", "segments", "places", "lengths", "rows", "wanted")
    OUTPUTS = ("chosen", "log_probs", "best_tokens", "best_log_probs")

    def __init__(self, active: Bools, n_best: int, scored: bool, heads: int) -> None:
        self._shape, self._n_best, self._scored = active.shape, n_best, scored
        self._key = (active.shape, active.tobytes(), n_best, scored)
        batch = len(active)
        self.counts: Ints = active.sum(axis=1)
        self.width = width = int(self.counts.max())
        self.segments: Ints = np.ascontiguousarray(np.argsort(~active, axis=1, kind="stable")[:, :width])  # (B, W)
        self.rows: Ints = np.flatnonzero(np.arange(width) < self.counts[:, None])  # (N,) places among B * W
        self.owners: Ints = self.rows // max(1, width)  # (N,) in which place of the batch each is
        self._spots = np.flatnonzero(active)  # (N,) the same rows as places among B * K
        n = len(self.rows)
        self.tokens: Ints = np.full((batch, width), PAD)
        self.places: Ints = np.empty((batch, width, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
        self.places[..., 0] = np.arange(batch)[:, None, None]
        self.places[..., 1] = np.arange(heads)
        self._offsets = np.arange(width)[:, None]
        self.lengths: NDArray[np.int32] = np.empty(batch, dtype=np.int32)
        self.wanted: Ints = np.full((n, 1), FREE)
        self.chosen: Ints = np.empty((n, 1), dtype=np.int64)
        scores, best = ((n, 1), (n, n_best)) if scored else ((0, 0), (0, 0))
        self.log_probs: Floats = np.empty(scores, dtype=np.float32)
        self.best_tokens: Ints = np.empty(best, dtype=np.int64)
        self.best_log_probs: Floats = np.empty(best, dtype=np.float32)

    def fits(self, active: Bools, n_best: int, scored: bool) -> bool:
        return (active.shape, active.tobytes(), n_best, scored) == self._key

    def fill(self, tokens: Ints, forced: Ints | None, filled: Ints) -> None:
        """Write the inputs of one step; `filled` says how many rows of each sentence the cache holds."""
        self.tokens.ravel()[self.rows] = tokens.ravel()[self._spots]
        self.wanted[:, 0] = FREE if forced is None else forced.ravel()[self._spots]
        self.places[..., 2] = filled[:, None, None] + self._offsets
        self.lengths[:] = np.maximum(filled + self.counts, 1)

    def choice(self, vocabulary: Vocabulary) -> Choice:
        """Put each row where its sentence and segment are; all other places hold PAD."""
        tokens: Ints = self._spread(vocabulary.ids(self.chosen), PAD)[..., 0]
        if not self._scored:
            return Choice(tokens, np.zeros(tokens.shape, dtype=np.float32))
        log_probs: Floats = self._spread(self.log_probs, 0.0)[..., 0]
        if not self._n_best:
            return Choice(tokens, log_probs)
        best = self._spread(vocabulary.ids(self.best_tokens), PAD)
        return Choice(tokens, log_probs, best, self._spread(self.best_log_probs, -np.inf))

    def _spread(self, rows: NDArray[Any], elsewhere: float) -> NDArray[Any]:
        """Give rows (N, n) the shape (B, K, n)."""
        spread = np.full((*self._shape, rows.shape[1]), elsewhere, dtype=rows.dtype)
        spread.reshape(-1, rows.shape[1])[self._spots] = rows
        return spread


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
        for name, array in arrays.items():
            self._binding.bind_ortvalue_output(name, self._value(name, array))

    def in_place(self, name: str, output: str, array: NDArray[Any]) -> None:
        """Make one array both input and output."""
        value = self._value(name, array)
        self._binding.bind_ortvalue_input(name, value)
        self._binding.bind_ortvalue_output(output, value)

    def run(self) -> None:
        """Run the session on the arrays as they are now."""
        self._session.run_with_iobinding(self._binding)

    def _value(self, name: str, array: NDArray[Any]) -> Any:
        assert array.flags.c_contiguous, name  # else ONNX Runtime would work on a copy
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        self._alive[name] = value
        return value


class Positions:
    """The positional encoding of as many positions as were asked for."""

    def __init__(self, d_model: int) -> None:
        self.d_model = d_model
        self._table = sinusoids(256, d_model)

    def first(self, length: int) -> Floats:
        """Return positions 0 to length - 1, (length, D)."""
        table = self._table  # another thread may put a shorter one in its place
        if length > len(table):
            table = self._table = sinusoids(2 * length, self.d_model)
        return table[:length]

    def at(self, position: int) -> Floats:
        """Return one position, (D,)."""
        return self.first(position + 1)[position]


def sinusoids(length: int, d_model: int) -> Floats:
    """Return the paper's positional encoding (Appendix A): sines at even, cosines at odd places.

    >>> sinusoids(2, 2).round(2).tolist()
    [[0.0, 1.0], [0.8399999737739563, 0.5400000214576721]]
    """
    angles = np.arange(length)[:, None] * 10_000.0 ** (-np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model).astype(np.float32)


def layer_names(prefix: str, layers: int) -> list[str]:
    """Name the keys and values of all layers in the order in which they lie in a block.

    >>> layer_names("memory_", 1)
    ['memory_key_0', 'memory_value_0']
    """
    return [f"{prefix}{what}_{index}" for index in range(layers) for what in ("key", "value")]
