"""What a translator knows of an engine: it encodes sources and hands back a stepper.

What only some engines can do they inherit; to ask for a protocol at run time takes 10 us a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.beam import NBest
from recoversat.decoding.oneshot import Writer
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Ints, Stepper


class Engine(Protocol):
    """A loaded model that can decode: torch_engine (reference), graph_engine (GPU), onnx_engine (no torch)."""

    @property
    def max_segments(self) -> int:
        """The largest K the model can decode with."""

    def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> Stepper:
        """Encode sources (lists of ids) and begin decoding, sentence b with n_segments[b] segments."""


class BoundedEngine(ABC):
    """An engine whose memory may be bounded, and which then says how much it can take at a time."""

    @abstractmethod
    def largest_batch(self, source_length: int, n_segments: int) -> int | None:
        """Return how many sentences of this length may be started at once; None = any number."""


class WholeDecoder(ABC):
    """An engine that also decodes whole sentences on its own, faster than a step at a time (graph_engine)."""

    @abstractmethod
    def decode(
        self,
        sources: Sequence[Sequence[int]],
        n_segments: Ints,
        limits: Ints,
        forced: Sequence[Forced] | None = None,
        n_best: int = 0,
    ) -> list[Decoded]:
        """Write what `decode_segments` would."""

    @abstractmethod
    def search(self, sources: Sequence[Sequence[int]], limits: Ints, beam: int = 4, alpha: float = 0.6) -> list[NBest]:
        """Find what `beam_search` would, one hypothesis a sentence."""


class OneShotEngine(ABC):
    """A loaded one-step model, which is written in one go instead of step by step."""

    @property
    @abstractmethod
    def max_segments(self) -> int:
        """Always 1."""

    @abstractmethod
    def open(self, sources: Sequence[Sequence[int]]) -> Writer:
        """Encode sources, ready to be written in any length."""


def pad_sources(sources: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Lay sources side by side, padded with 0 at the end.

    >>> pad_sources([[7, 8, 9], [7]]).tolist()
    [[7, 8, 9], [7, 0, 0]]
    """
    padded = np.zeros((len(sources), max(len(source) for source in sources)), dtype=np.int64)
    for row, source in zip(padded, sources, strict=True):
        row[: len(source)] = source
    return padded
