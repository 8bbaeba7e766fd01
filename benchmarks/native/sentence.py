"""Write one sentence with one call of the native library.

S source, K segments, T steps, D model.
"""

import ctypes
import weakref
from collections.abc import Sequence
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
from native.library import KITS, kits, library
from native.weights import arrays_of
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.onnx.stepper import Positions
from recoversat.errors import UserError
from recoversat.vocab import PAD


class NativeModel:
    """The weights of a model as the library wants them, and what each thread needs to write."""

    def __init__(self, folder: Path, config: ModelConfig, kit: str | None = None) -> None:
        usable = kits()
        if (kit := kit or next(iter(usable), "")) not in usable:
            raise UserError(f"the native engine needs a processor with AVX2, or {kit or 'any of its kits'}: not here")
        self.library, self._arrays, self._local = library(), arrays_of(folder, config), local()
        embedding = self._arrays[-3]
        self.kit, self.places = kit, len(embedding)
        layers = (config.encoder_layers, config.decoder_layers)
        sizes = np.array([config.d_model, config.d_hidden, config.n_heads, *layers, self.places], dtype=np.int32)
        addresses = (ctypes.c_void_p * len(self._arrays))(*(_address(array) for array in self._arrays))
        self.address = self.library.rs_model(_address(sizes), KITS.index(kit), ctypes.addressof(addresses))
        if not self.address:
            raise UserError(f"{folder}: the native engine takes d_model and d_hidden in 32s, heads in 16s; use onnx")
        weakref.finalize(self, self.library.rs_model_free, self.address)

    def work(self) -> int:
        """Return what this thread writes with."""
        if not hasattr(self._local, "held"):
            self._local.held = _Work(self)
        return int(self._local.held.address)


class _Work:
    """Memory that is given back when its thread ends."""

    def __init__(self, model: NativeModel) -> None:
        self.address = model.library.rs_work(model.address)
        if not self.address:
            raise MemoryError
        weakref.finalize(self, model.library.rs_work_free, self.address)


class NativeSentence:
    """Writes whole sentences, one at a time."""

    def __init__(self, model: NativeModel, positions: Positions) -> None:
        self._model, self._positions = model, positions

    def write(
        self, source: Sequence[int], steps: Ints, bias: Floats, pieces: Ints | None = None, scores: bool = False
    ) -> Decoded:
        """Write segment k in at most steps[k] steps, with these pieces or all; `bias` (V,) is added to logits."""
        k, most = len(steps), int(steps.max())
        ids, lives = np.array(source, dtype=np.int32), steps.astype(np.int32)
        listed = None if pieces is None else pieces.astype(np.int32)
        positions = self._positions.first(max(len(source), most))
        chosen: NDArray[np.int32] = np.empty((most, k), dtype=np.int32)
        log_probs: Floats | None = np.empty((most, k), dtype=np.float32) if scores else None
        taken = self._model.library.rs_write(
            self._model.work(), _address(ids), len(ids), _address(lives), k, _address(positions), _address(bias),
            _address(listed), 0 if listed is None else len(listed), _address(chosen), _address(log_probs),
        )  # fmt: skip
        if taken < 0:
            raise MemoryError
        written = [[token for token in segment if token != PAD] for segment in chosen[:taken].T.tolist()]
        found = [[] for _ in written] if log_probs is None else log_probs.T.tolist()
        each = [values[: len(segment)] for values, segment in zip(found, written, strict=True)]
        return Decoded(written, each, taken)


def _address(array: NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data
