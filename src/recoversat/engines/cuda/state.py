"""Static buffers: everything a captured graph reads and writes lies at an address that never changes.

B sentences, S source, K segments, R = B * K rows, T steps, M cache rows, D model, H heads, E head, L decoder layers.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ALIGNMENT = 128  # bytes
_HALF = (torch.float16, torch.bfloat16)
SEEN = (64, 128, 256, 512, 1024)  # cache rows that a step's graph looks at


@dataclass(frozen=True)
class Field:
    """One tensor in an arena."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.int64

    @property
    def bytes(self) -> int:
        return -(-prod(self.shape) * self.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


Fields = dict[str, Field]


class Arena:
    """Named tensors in one piece of device memory, with a twin on the host: one copy sets them, one fetches results.

    `given` travel to the device, `found` come back, `both` do both.
    """

    def __init__(
        self, given: Fields, device: torch.device, both: Fields | None = None, found: Fields | None = None
    ) -> None:
        both, found = both or {}, found or {}
        sizes = [sum(field.bytes for field in fields.values()) for fields in (given, both, found)]
        self.memory = torch.zeros(sum(sizes), dtype=torch.uint8, device=device)
        self._host_memory = torch.zeros(sum(sizes), dtype=torch.uint8, pin_memory=device.type == "cuda")
        up, down = slice(0, sizes[0] + sizes[1]), slice(sizes[0], sum(sizes))
        self._up, self._down = ((self.memory[part], self._host_memory[part]) for part in (up, down))
        self._answered = torch.cuda.Event() if device.type == "cuda" else None
        fields = given | both | found
        self.device = _cut(self.memory, fields)
        self.host = {name: _array(tensor) for name, tensor in _cut(self._host_memory, fields).items()}

    def upload(self) -> None:
        """Set the device's tensors to the host's; those must not change until the device has been waited for."""
        there, here = self._up
        there.copy_(here, non_blocking=True)

    def ask(self) -> None:
        """Have the host's results set to the device's, when all that it was told to do so far is done."""
        there, here = self._down
        here.copy_(there, non_blocking=True)
        if self._answered:
            self._answered.record()

    def wait(self) -> None:
        """Wait for what was asked for last; the device may go on with what it was told since."""
        if self._answered:
            self._answered.synchronize()

    def fetch(self) -> None:
        """Ask, and wait."""
        self.ask()
        self.wait()


def _cut(memory: Tensor, fields: Fields) -> dict[str, Tensor]:
    tensors, at = {}, 0
    for name, field in fields.items():
        used = prod(field.shape) * field.dtype.itemsize
        tensors[name] = memory[at : at + used].view(field.dtype).view(field.shape)
        at += field.bytes
    return tensors


def _array(tensor: Tensor) -> NDArray[Any]:
    """Share a host tensor's memory with numpy, which sets small arrays faster; half precision as bits."""
    return tensor.view(torch.int16).numpy() if tensor.dtype in _HALF else tensor.numpy()


def hidden(dtype: torch.dtype) -> float:
    """Return what stands for -inf in a host array of this type.

    >>> hidden(torch.float32), hidden(torch.float16)
    (-inf, -1024)
    """
    return int(torch.tensor(-torch.inf, dtype=dtype).view(torch.int16)) if dtype in _HALF else -np.inf


@dataclass(eq=False)
class Encoded:
    """Keys and values of sources, where all sessions of as many and as long ones put theirs, one after the other."""

    keys_values: Tensor  # (B, S, L, 2, H, E)
    of: tuple[bytes, ...] = ()  # what the encoder read: tokens and their mask; empty while nobody knows


@dataclass(frozen=True)
class Memory:
    """The source as decoder layers see it."""

    keys_values: Tensor  # (B, S, L, 2, H, E)
    mask: Tensor  # (B, S) 0 where a source token is, -inf on padding


@dataclass(frozen=True)
class Rows:
    """Rows written so far; the newest of a step go to the places `newest`."""

    caches: list[Tensor]  # L of (B, M, 2, H, E)
    positions: Tensor  # (M, D)
    newest: Tensor  # (K,)
    mask: Tensor  # (B, 1 or K, at least M) 0 where a row is seen, -inf elsewhere


@dataclass(frozen=True)
class SegmentState:
    """What changes from step to step while segments are written, and what bounds it."""

    single: Tensor  # (R,) 1 where the sentence has one segment
    limits: Tensor  # (R,)
    active: Tensor  # (R,) int32, 1 where the segment is still being written
    tokens: Tensor  # (R,) the newest of each segment
    steps: Tensor  # (R,) how many were taken: the same everywhere
    rows: Tensor  # (K,) places of the newest rows in the cache
    n_active: Tensor  # (T,) int32, how many segments go on after each step
    row_mask: Tensor  # (B, M + K) 0 where a cached row is seen, -inf elsewhere; has room for the step after the last
    log: Tensor  # (T, 2, R) int32: the tokens of each step, then their log-probabilities as bits
    n_segments: int

    @property
    def log_tokens(self) -> Tensor:
        """(T, R)"""
        return self.log[:, 0]

    @property
    def log_probs(self) -> Tensor:
        """(T, R) float32"""
        return self.log.view(torch.float32)[:, 1]


def rung(size: int, ladder: Sequence[int]) -> int:
    """Return the first rung that is not below a size; above the ladder, the next power of two.

    >>> rung(17, (16, 32)), rung(33, (16, 32)), rung(1, (16, 32))
    (32, 64, 16)
    """
    at = bisect_left(ladder, size)
    return ladder[at] if at < len(ladder) else 1 << (size - 1).bit_length()
