"""A model in the native library: its weights, what a thread works with, and sentences that outlive a call.

B sentences, S source, K segments, N rows, T steps, D model, V vocabulary.
"""

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, chain
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.native.library import KITS, address_of, check, give_back, kits, library
from recoversat.engines.native.lists import NativeLists
from recoversat.engines.native.weights import arrays_of
from recoversat.engines.positions import Positions
from recoversat.errors import UserError

KEPT = 1 << 27  # bytes that sentences keep which are written together, where memory is not bounded
_CACHED = 1 << 25  # bytes of weights that a cache may hold
_STEPS = 8  # between two looks at who may want to stop


class Verifying(IntEnum):
    """What is done about pieces that are better than those of a list (native.cpp has the same)."""

    NEVER = 0
    ALWAYS = 1  # they are looked for and take their places
    IN_VAIN = 2  # they are looked for alone, to time models that have learnt nothing


@dataclass(frozen=True)
class Wanted:
    """A sentence that is to be written in one go."""

    source: Sequence[int]
    steps: list[int]  # (K,) the most that each segment may take
    bias: Floats  # (V,) added to logits
    first_bias: Floats  # (V,) the same in the first step
    memory: "_Held | None" = None  # keys and values of its source; None: it has to be read


@dataclass
class Writing:
    """A sentence that is written a few rows at a time."""

    memory: "_Held"  # keys and values of its source
    written: "_Held"
    bias: Floats  # (V,) added to logits
    kept: int = 0  # rows that count; what was written after them is forgotten


class Found(NamedTuple):
    """What rows (N,) find in the vocabulary; what is not wanted is zeros, or empty."""

    best: Ints
    log_probs: Floats  # of the best pieces
    logits: Floats  # (N, V)
    given: Floats  # log-probabilities of the pieces that were given


class NativeModel:
    """The weights of a model as the library wants them, and all it can do with them."""

    def __init__(self, folder: Path, config: ModelConfig, kit: str | None = None) -> None:
        usable = kits()
        if (kit := kit or next(iter(usable), "")) not in usable:
            raise UserError(f"the native engine needs a processor with AVX2, or {kit or 'any of its kits'}: not here")
        self.library, self._local, named = library(), local(), arrays_of(folder, config)
        self._arrays, embedding = list(named.values()), named["embedding"]
        self.kit, self.places, self.positions = kit, len(embedding), Positions(config.d_model)
        # rows that go through a product together: more would evict each other, fewer would wait for weights
        self.side_by_side = 8 if sum(array.nbytes for array in self._arrays) < _CACHED else 16
        layers = (config.encoder_layers, config.decoder_layers)
        sizes = np.array([config.d_model, config.d_hidden, config.n_heads, *layers, self.places], dtype=np.int32)
        addresses = (ctypes.c_void_p * len(self._arrays))(*(address_of(array) for array in self._arrays))
        self.address = self.library.rs_model(address_of(sizes), KITS.index(kit), ctypes.addressof(addresses))
        if not self.address:
            takes = "d_model and d_hidden in 32s up to 65,536, heads in 16s"
            raise UserError(f"{folder}: the native engine takes {takes}; use int8")
        give_back(self, self.library.rs_model_free, self.address)

    def work(self) -> int:
        """Return what this thread writes with."""
        if not hasattr(self._local, "held"):
            self._local.held = _Held(self, "work")
        return self._local.held.address

    def pasts(self) -> "_Held":
        """Return room for keys and values: of a source, or of what is written."""
        return _Held(self, "pasts")

    def copied(self, pasts: "_Held") -> "_Held":
        """Return keys and values that go their own way from here."""
        copy = self.pasts()
        check(self.library.rs_pasts_copy(copy.address, pasts.address))
        return copy

    def encoded(self, source: Sequence[int]) -> "_Held":
        """Return keys and values of a source."""
        memory, ids = self.pasts(), self.ids(source)
        positions = self.positions.first(len(ids))
        check(self.library.rs_encode(self.work(), memory.address, address_of(ids), len(ids), address_of(positions)))
        return memory

    def ids(self, tokens: Sequence[int] | Ints, sizes: Sequence[int] = ()) -> NDArray[np.int32]:
        """Return ids as the library takes them, which trusts them: those of one sentence, or of several."""
        ids = np.asarray(tokens, dtype=np.int64)
        if not len(ids) or 0 in sizes or ids.min() < 0 or ids.max() >= self.places:
            raise ValueError(f"ids from 0 to {self.places - 1} are wanted, one at least")
        return ids.astype(np.int32)

    def _check_segments(self, k: int) -> None:
        if k > len(self._arrays[-1]):
            raise ValueError(f"this model has {len(self._arrays[-1])} segments, not {k}")

    def rows(
        self, sentences: Sequence[Writing], counts: Sequence[int], tokens: Ints, segments: Ints, step: int,
        causal: bool = False, scores: bool = True, logits: bool = False, given: Ints | None = None,
    ) -> Found:  # fmt: skip
        """Append counts[b] of the rows (N,) to sentence b; return what they find, of pieces that are given (N,) too.

        Those of a sentence stand in one step and see each other, or in steps that follow one another and see those
        before (`causal`).
        """
        n = len(tokens)
        ids, own = self.ids(tokens), segments.astype(np.int32)
        self._check_segments(int(segments.max()) + 1)
        positions = self.positions.first(step + (n if causal else 1))[step:]
        chosen, log_probs = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.float32)
        all_logits: Floats = np.empty((n if logits else 0, self.places), dtype=np.float32)
        wanted = None if given is None else self.ids(given)
        likely = np.zeros(0 if given is None else n, dtype=np.float32)
        each = [(one.memory.address, one.written.address, address_of(one.bias)) for one in sentences]
        if len({written for _, written, _ in each}) < len(each):
            raise ValueError("each sentence writes into keys and values of its own")
        memories, written, biases = np.array(each, dtype=np.uint64).T.copy()
        sizes = np.array([[one.kept for one in sentences], counts], dtype=np.int32)
        done = self.library.rs_rows(
            self.work(), address_of(memories), address_of(written), address_of(sizes[0]), address_of(sizes[1]),
            len(sentences), address_of(ids), address_of(own), address_of(positions), causal, address_of(biases),
            address_of(chosen), address_of(log_probs) if scores or given is not None else None,
            address_of(all_logits) if logits else None, address_of(wanted), address_of(likely),
        )  # fmt: skip
        check(done)
        for one, count in zip(sentences, counts, strict=True):
            one.kept += count
        return Found(chosen.astype(np.int64), log_probs, all_logits, likely)

    def write(
        self, wanted: Sequence[Wanted], lists: NativeLists | None = None, scores: bool = False, kept: int = KEPT,
        verifying: Verifying = Verifying.NEVER,
    ) -> list[Decoded]:  # fmt: skip
        """Write sentences, each as it would be alone; those that are under way together keep so many bytes at most."""
        sizes, counts = [len(one.source) for one in wanted], [len(one.steps) for one in wanted]
        self._check_segments(max(counts))
        ids = self.ids(list(chain.from_iterable(one.source for one in wanted)), sizes)
        steps = np.array(list(chain.from_iterable(one.steps for one in wanted)), dtype=np.int32)
        room = max(1, int(steps.max()))
        positions = self.positions.first(max(room, *sizes))
        chosen: NDArray[np.int32] = np.empty((len(steps), room), dtype=np.int32)
        log_probs: Floats | None = np.empty((len(steps), room), dtype=np.float32) if scores else None
        lengths, taken = np.zeros(len(steps), dtype=np.int32), np.zeros(len(wanted), dtype=np.int32)
        tasks = _tasks(wanted, sizes, counts, (ids, steps, chosen, log_probs, lengths, taken))
        work = self.work()
        begun = self.library.rs_begin(
            work, address_of(tasks), len(tasks), address_of(positions), lists and lists.address, room,
            self.side_by_side, kept, verifying,
        )  # fmt: skip
        check(begun)
        while check(self.library.rs_go_on(work, _STEPS)):
            between_steps()
        return _decoded(counts, chosen, log_probs, lengths, taken.tolist())


class _Held:
    """Something of the library's that is given back when nobody has it any more."""

    def __init__(self, model: NativeModel, kind: str) -> None:
        self.address: int = getattr(model.library, f"rs_{kind}")(model.address)
        if not self.address:
            raise MemoryError
        self.model = weakref.ref(model)
        give_back(self, getattr(model.library, f"rs_{kind}_free"), self.address)


Pasts = _Held


def _tasks(
    wanted: Sequence[Wanted], sizes: list[int], counts: list[int], arrays: Sequence[NDArray[Any] | None]
) -> NDArray[np.int64]:
    """Return a line for each sentence, which native.cpp reads as a `Task`: addresses, then S and K."""
    source, steps, chosen, log_probs, lengths, taken = (address_of(array) or 0 for array in arrays)
    room = 0 if arrays[2] is None else arrays[2].shape[1]
    biases = {id(bias): address_of(bias) for one in wanted for bias in (one.bias, one.first_bias)}
    ids_before, segments_before = accumulate(sizes, initial=0), accumulate(counts, initial=0)
    lines = []
    for at, (one, ids, first) in enumerate(zip(wanted, ids_before, segments_before, strict=False)):
        own = chosen + 4 * room * first, log_probs and log_probs + 4 * room * first, lengths + 4 * first, taken + 4 * at
        memory, biased = one.memory.address if one.memory else 0, (biases[id(one.bias)], biases[id(one.first_bias)])
        lines.append((source + 4 * ids, steps + 4 * first, *biased, memory, *own, sizes[at], counts[at]))
    return np.array(lines, dtype=np.int64)


def _decoded(
    counts: list[int], chosen: NDArray[np.int32], log_probs: Floats | None, lengths: NDArray[np.int32], taken: list[int]
) -> list[Decoded]:
    """Give each sentence its segments, which lie one after the other."""
    longest, ends = int(lengths.max()), lengths.tolist()
    written = [row[:n] for row, n in zip(chosen[:, :longest].tolist(), ends, strict=True)]
    found: list[list[float]] = [[] for _ in written]
    if log_probs is not None:
        found = [row[:n] for row, n in zip(log_probs[:, :longest].tolist(), ends, strict=True)]
    firsts = accumulate(counts, initial=0)
    return [
        Decoded(written[first : first + k], found[first : first + k], steps)
        for first, k, steps in zip(firsts, counts, taken, strict=False)
    ]
