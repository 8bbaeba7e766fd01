"""Rows in a run of the step graph: a step of several sentences, a target that is scored, places to fill, a draft.

B sentences, N rows of each in a run, R real rows of all sentences, M places of the cache, L decoder layers, H heads,
E = D / H, D model, P padded vocabulary, n alternatives. Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints
from recoversat.decoding.verify import AHEAD, ALL
from recoversat.engines.pairs import side_by_side
from recoversat.engines.positions import Positions
from recoversat.segments import Rows, visible
from recoversat.vocab import PAD


@dataclass(frozen=True)
class ManyRows:
    """What goes through the graph in one run."""

    tokens: Ints  # (B, N)
    segments: Ints  # (B, N)
    steps: Ints  # (B, N), or (1, 1) where all are in one step
    places: Ints  # (B, N) where rows are in the cache, or (1, N)
    seen: NDArray[
        np.int32
    ]  # (B, N, M) 1 for places that a row sees, or (B,) how many places all rows of a sentence see
    real: Bools  # (B, N)


class Found(NamedTuple):
    """What the real rows find; what was not asked for is empty."""

    tokens: Ints  # (R,)
    log_probs: Floats  # (R,)
    best_tokens: Ints  # (R, n)
    best_log_probs: Floats  # (R, n)


class RowRunner:
    """The step graph over encoded sources; it writes keys and values of rows into a cache in place."""

    def __init__(
        self, session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, bias: Floats,
        room: int = 0,
    ) -> None:  # fmt: skip
        """Take the sources' keys and values (2L, B, H, S, E), and what is added to logits (P,)."""
        self._session, self._binding, self._positions = session, session.io_binding(), positions
        self._alive: dict[str, Any] = {}  # arrays, as long as they are bound
        self._cache: Floats = np.zeros((*memory.shape[:3], room, memory.shape[4]), dtype=np.float32)  # (2L, B, H, M, E)
        self._bind({"bias": bias})
        self._bind_sources(memory, memory_lengths)
        self._bind_cache()

    def run(self, given: ManyRows, wanted: Ints, scores: bool = True, n_best: int = 0) -> Found:
        """Return each real row's token, the one that is wanted (R,) or, where that is FREE, the best."""
        (batch, width), heads, n_rows = given.tokens.shape, self._cache.shape[2], len(wanted)
        places: Ints = np.empty((batch, width, heads, 3), dtype=np.int64)  # sentence, head, place in the cache
        places[..., 0] = np.arange(batch)[:, None, None]
        places[..., 1], places[..., 2] = np.arange(heads), given.places[..., None]
        self._bind({
            "tokens": given.tokens,
            "segments": given.segments,
            "position": self._positions.first(int(given.steps.max()) + 1)[given.steps],  # (B, N, D)
            "places": places,
            "lengths": given.seen,
            "rows": np.flatnonzero(given.real),
            "wanted": wanted[:, None],
            "scored": np.array([scores or n_best > 0]),
            "n_best": np.array([n_best]),
        })  # fmt: skip
        n_scored = n_rows if scores or n_best else 0
        chosen: Ints = np.empty((n_rows, 1), dtype=np.int64)
        log_probs: Floats = np.empty((n_scored, min(n_scored, 1)), dtype=np.float32)
        best: Ints = np.empty((n_scored, n_best), dtype=np.int64)
        likely: Floats = np.empty(best.shape, dtype=np.float32)
        outputs: dict[str, NDArray[Any]] = {
            "chosen": chosen,
            "log_probs": log_probs,
            "best_tokens": best,
            "best_log_probs": likely,
        }
        for name, array in outputs.items():
            self._binding.bind_ortvalue_output(name, self._hold(name, array))
        self._session.run_with_iobinding(self._binding)
        return Found(chosen[:, 0], log_probs.ravel(), best, likely)

    def _bind_sources(self, memory: Floats, lengths: NDArray[np.int32]) -> None:
        self._memory, self._memory_lengths = memory, lengths
        self._bind({f"memory_{name}": array for name, array in _named(memory)} | {"memory_lengths": lengths})

    def _bind_cache(self) -> None:
        for name, array in _named(self._cache):
            value = self._hold(name, array)
            self._binding.bind_ortvalue_input(name, value)
            self._binding.bind_ortvalue_output(f"new_{name}", value)

    def _bind(self, arrays: dict[str, NDArray[Any]]) -> None:
        for name, array in arrays.items():
            self._binding.bind_ortvalue_input(name, self._hold(name, array))

    def _hold(self, name: str, array: NDArray[Any]) -> Any:
        """Keep an array; ONNX Runtime reads and writes it where it is."""
        assert array.flags.c_contiguous, name  # else it would work on a copy
        self._alive[name] = value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        return value


def _named(block: Floats) -> list[tuple[str, Floats]]:
    """Name the keys and values of all layers, which are one block (2L, ...)."""
    return [(f"{('key', 'value')[at % 2]}_{at // 2}", array) for at, array in enumerate(block)]


class OnnxStepper(RowRunner):
    """A batch of sentences being written, a step at a time."""

    def __init__(
        self, session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, bias: Floats,
        room: int, first_bias: Floats | None = None,
    ) -> None:  # fmt: skip
        """Take how many rows most sentences need, and what is added to the logits of the first step."""
        super().__init__(session, memory, memory_lengths, positions, bias if first_bias is None else first_bias)
        self._later, self._room, self._steps = bias, room, 0
        self._filled: Ints = np.zeros(len(memory_lengths), dtype=np.int64)  # (B,) rows each sentence has in the cache
        self._sentences: Ints = np.arange(len(memory_lengths))  # (B,) whose source is in each place

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Append a row to each active segment and choose its next token; others get PAD."""
        counts = active.sum(axis=1)
        width = int(counts.max())
        chosen = np.full(tokens.shape, PAD)
        log_probs: Floats = np.zeros(tokens.shape, dtype=np.float32)
        best = np.full((*tokens.shape, n_best), PAD)
        likely: Floats = np.full(best.shape, -np.inf, dtype=np.float32)
        if width:
            if (needed := int(self._filled.max()) + width) > self._cache.shape[3]:
                self._make_room(needed)
            # segments that write come first: a sentence has `counts` rows, and the graph sees `width` of each
            segments = np.ascontiguousarray(np.argsort(~active, axis=1, kind="stable")[:, :width])
            wanted = np.full(int(counts.sum()), FREE) if forced is None else forced[active]
            rows = ManyRows(
                np.take_along_axis(tokens, segments, axis=1), segments, np.array([[self._steps]]),
                self._filled[:, None] + np.arange(width), np.maximum(self._filled + counts, 1).astype(np.int32),
                np.arange(width) < counts[:, None],
            )  # fmt: skip
            found = self.run(rows, wanted, scores, n_best)
            self._filled += counts
            chosen[active] = found.tokens
            if scores or n_best:
                log_probs[active], best[active], likely[active] = found[1:]
        self._steps += 1
        if self._steps == 1:
            self._bind({"bias": self._later})
        return Choice(chosen, log_probs, best, likely) if n_best else Choice(chosen, log_probs)

    def keep(self, which: Ints) -> None:
        which = np.asarray(which)
        if np.array_equal(self._sentences[which], self._sentences):  # hypotheses that change places
            moved, used = np.flatnonzero(which != np.arange(len(which))), int(self._filled.max())
            self._cache[:, moved, :, :used] = self._cache[:, which[moved], :, :used]
            self._filled = self._filled[which]
            return
        self._sentences, self._filled = self._sentences[which], self._filled[which]
        # np.take, since an array indexed like [:, which] is not contiguous, and nothing could be written in place
        self._cache = np.take(self._cache, which, axis=1)
        self._bind_sources(np.take(self._memory, which, axis=1), self._memory_lengths[which])
        self._bind_cache()

    def _make_room(self, needed: int) -> None:
        """Let the cache grow by half or more, so that all copying together stays linear in the length."""
        used = self._cache.shape[3]
        room = max(needed, self._room, used * 3 // 2)
        cache: Floats = np.zeros((*self._cache.shape[:3], room, self._cache.shape[4]), dtype=np.float32)
        cache[:, :, :, :used] = self._cache
        self._cache = cache
        self._bind_cache()


def score_rows(
    session: Any, memory: Floats, memory_lengths: NDArray[np.int32], positions: Positions, bias: Floats,
    targets: Sequence[Rows],
) -> Floats:  # fmt: skip
    """Return the log-probability of every row's label (R,), target after target; memory is (2L, B, H, S, E).

    A row sees those of the same or an earlier step (Eq. 3). Nothing is in the cache before.
    """
    tokens, segments, steps = (
        side_by_side(column)
        for column in zip(*((target.tokens, target.segments, target.steps) for target in targets), strict=True)
    )
    width = steps.shape[1]
    real = np.arange(width) < np.array([len(target.labels) for target in targets])[:, None]
    seen = np.stack([visible(own, own) for own in steps]) & real[:, None, :]
    labels = np.concatenate([target.labels for target in targets])
    rows = ManyRows(tokens, segments, steps, np.arange(width)[None], seen.astype(np.int32), real)
    return RowRunner(session, memory, memory_lengths, positions, bias, width).run(rows, labels).log_probs


class OnnxVerifier(RowRunner):
    """One sentence as K = 1 writes it; rows that were forgotten stay in the cache until others take their places."""

    ahead, most = AHEAD, ALL
    _rows = 0

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        return self.run(self._append(tokens), np.full(len(tokens), FREE), scores)[:2]

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        found = self.run(self._append(tokens), np.array([*tokens[1:], FREE]), n_best=1)
        return found.best_tokens.ravel(), found.best_log_probs.ravel(), found.log_probs[:-1]

    def _append(self, tokens: Sequence[int]) -> ManyRows:
        carried = np.array([tokens], dtype=np.int64)  # (1, N)
        at = np.arange(self._rows, self._rows + len(tokens))
        seen = (np.arange(self._cache.shape[3]) <= at[:, None])[None].astype(np.int32)
        self._rows += len(tokens)
        return ManyRows(carried, np.zeros_like(carried), at[None], at[None], seen, np.ones_like(carried, np.bool_))

    def forget(self, rows: int) -> None:
        self._rows = rows
