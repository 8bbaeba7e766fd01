"""A model in the native library: its weights, what a thread works with, and sentences that outlive a call.

S source, K segments, N rows, T steps, D model, V vocabulary.
"""

import ctypes
import weakref
from collections.abc import Sequence
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.native.library import KITS, kits, library
from recoversat.engines.native.weights import arrays_of
from recoversat.engines.positions import Positions
from recoversat.errors import UserError
from recoversat.vocab import PAD


class NativeModel:
    """The weights of a model as the library wants them, and all it can do with them."""

    def __init__(self, folder: Path, config: ModelConfig, kit: str | None = None) -> None:
        usable = kits()
        if (kit := kit or next(iter(usable), "")) not in usable:
            raise UserError(f"the native engine needs a processor with AVX2, or {kit or 'any of its kits'}: not here")
        self.library, self._arrays, self._local = library(), arrays_of(folder, config), local()
        embedding = self._arrays[-3]
        self.kit, self.places, self.positions = kit, len(embedding), Positions(config.d_model)
        layers = (config.encoder_layers, config.decoder_layers)
        sizes = np.array([config.d_model, config.d_hidden, config.n_heads, *layers, self.places], dtype=np.int32)
        addresses = (ctypes.c_void_p * len(self._arrays))(*(_address(array) for array in self._arrays))
        self.address = self.library.rs_model(_address(sizes), KITS.index(kit), ctypes.addressof(addresses))
        if not self.address:
            raise UserError(f"{folder}: the native engine takes d_model and d_hidden in 32s, heads in 16s; use int8")
        _give_back(self, self.library.rs_model_free, self.address)

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
        _check(self.library.rs_pasts_copy(copy.address, pasts.address))
        return copy

    def encoded(self, source: Sequence[int]) -> "_Held":
        """Return keys and values of a source."""
        memory, ids = self.pasts(), self._ids(source)
        positions = self.positions.first(len(ids))
        _check(self.library.rs_encode(self.work(), memory.address, _address(ids), len(ids), _address(positions)))
        return memory

    def _ids(self, tokens: Sequence[int] | Ints) -> NDArray[np.int32]:
        """Return ids as the library takes them, which trusts them."""
        ids = np.asarray(tokens, dtype=np.int64)
        if not len(ids) or ids.min() < 0 or ids.max() >= self.places:
            raise ValueError(f"ids from 0 to {self.places - 1} are wanted, one at least")
        return ids.astype(np.int32)

    def _check_segments(self, k: int) -> None:
        if k > len(self._arrays[-1]):
            raise ValueError(f"this model has {len(self._arrays[-1])} segments, not {k}")

    def rows(
        self, memory: "_Held", written: "_Held", kept: int, tokens: Ints, segments: Ints, step: int, bias: Floats,
        causal: bool = False, scores: bool = True, logits: bool = False,
    ) -> tuple[Ints, Floats, Floats]:  # fmt: skip
        """Append rows (N,) after the first `kept`; return the best piece of each, its log-probability, and all logits.

        They stand in one step and see each other, or in steps that follow one another and see those before (`causal`).
        What is not wanted is zeros, or empty.
        """
        n = len(tokens)
        ids, own = self._ids(tokens), segments.astype(np.int32)
        self._check_segments(int(segments.max()) + 1)
        positions = self.positions.first(step + (n if causal else 1))[step:]
        chosen, log_probs = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.float32)
        all_logits: Floats = np.empty((n if logits else 0, self.places), dtype=np.float32)
        done = self.library.rs_rows(
            self.work(), memory.address, written.address, kept, _address(ids), _address(own), n, _address(positions),
            causal, _address(bias), _address(chosen), _address(log_probs) if scores else None,
            _address(all_logits) if logits else None,
        )  # fmt: skip
        _check(done)
        return chosen.astype(np.int64), log_probs, all_logits

    def write(
        self, source: Sequence[int], memory: "_Held | None", steps: Ints, bias: Floats, pieces: Ints | None = None,
        scores: bool = False,
    ) -> Decoded:  # fmt: skip
        """Write segment k in at most steps[k] steps, with these pieces or all; `bias` (V,) is added to logits."""
        k, most = len(steps), max(1, int(steps.max()))
        ids, lives = self._ids(source), steps.astype(np.int32)
        self._check_segments(k)
        listed = None if pieces is None else pieces.astype(np.int32)
        positions = self.positions.first(max(len(source), most))
        chosen: NDArray[np.int32] = np.empty((most, k), dtype=np.int32)
        log_probs: Floats | None = np.empty((most, k), dtype=np.float32) if scores else None
        taken = self.library.rs_write(
            self.work(), memory and memory.address, _address(ids), len(ids), _address(lives), k, _address(positions),
            _address(bias), _address(listed), 0 if listed is None else len(listed), _address(chosen),
            _address(log_probs),
        )  # fmt: skip
        _check(taken)
        written = [[token for token in segment if token != PAD] for segment in chosen[:taken].T.tolist()]
        found = [[] for _ in written] if log_probs is None else log_probs.T.tolist()
        each = [values[: len(segment)] for values, segment in zip(found, written, strict=True)]
        return Decoded(written, each, taken)


class _Held:
    """Something of the library's that is given back when nobody has it any more."""

    def __init__(self, model: NativeModel, kind: str) -> None:
        self.address: int = getattr(model.library, f"rs_{kind}")(model.address)
        if not self.address:
            raise MemoryError
        self.model = weakref.ref(model)
        _give_back(self, getattr(model.library, f"rs_{kind}_free"), self.address)


Pasts = _Held


def _give_back(owner: object, free: Any, address: int) -> None:
    """Free memory when nobody has its owner any more; not at exit, when threads may still be at work."""
    weakref.finalize(owner, free, address).atexit = False


def _check(answer: int) -> None:
    if answer < 0:
        raise MemoryError


def _address(array: NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data
