"""Buffers and graphs of one bucket of sizes: what writing segments, beam search and passes over given tokens share.

B sentences, S source, K rows a sentence gets in a step, M cache rows, D model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor

from recoversat.engines.cuda.capture import Capturer, Replay
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.state import Arena, Field, Fields, Memory, Rows, hidden, rung
from recoversat.vocab import PAD


class Bucket(NamedTuple):
    """Sizes that a set of graphs is made for."""

    batch: int
    source: int
    width: int  # rows that each sentence gets in a step: segments, hypotheses, or tokens of a pass
    room: int  # cache rows: a multiple of 64

    @property
    def steps(self) -> int:
        """How many steps there is room for."""
        return self.room // self.width


class Session:
    """An encoder over static buffers, and graphs of what is done after it, by their sizes."""

    def __init__(
        self, model: GraphModel, capturer: Capturer, bucket: Bucket, positions: Tensor, given: Fields,
        both: Fields, found: Fields,
    ) -> None:  # fmt: skip
        """Take the buffers that a kind of session has of its own; `rows` (K,) and `row_mask` are among them.

        `positions` (M, D) is what is added to the rows of the cache.
        """
        weights, source = model.weights, (bucket.batch, bucket.source)
        given = {"src": Field(source), "source_mask": Field(source, weights.dtype)} | given
        self._model, self._capturer, self._bucket = model, capturer, bucket
        self._layers = model.layers(bucket.batch, bucket.width, bucket.source)
        self._encoder = model.layers(bucket.batch, 1, bucket.source)
        self._arena, self._hidden = Arena(given, weights.device, both, found), hidden(weights.dtype)
        self._host, self._tensors = self._arena.host, self._arena.device
        self._encoded = model.encoded(*source)  # others write there too, between two uses of this session
        self._memory = Memory(self._encoded.keys_values, self._tensors["source_mask"])
        self._source_positions = weights.source_positions(bucket.source)
        caches = model.new_caches(bucket.batch, bucket.room)
        self._rows = Rows(caches, positions, self._tensors["rows"], self._tensors["row_mask"])
        self._captured: dict[tuple[int, ...], Replay] = {}
        self._ahead = self._layers.goes_ahead and bucket.batch == 1

    def drop(self) -> None:
        """Let go of the graphs; the session is not used again."""
        self._captured.clear()

    @property
    def _to_read(self) -> tuple[bytes, ...]:
        """What the encoder would read now."""
        return self._host["src"].tobytes(), self._host["source_mask"].tobytes()

    def _run_encoder(self) -> None:
        self._encoder.encode(self._tensors["src"], self._source_positions, self._memory)

    def _fill_sources(self, sources: Sequence[Sequence[int]]) -> None:
        """Lay sources side by side on the host; a place without a sentence gets one of a single token."""
        src, mask = self._host["src"], self._host["source_mask"]
        src[:], mask[:] = PAD, self._hidden
        mask[:, 0] = 0
        for line, source in enumerate(sources):
            src[line, : len(source)] = source
            mask[line, : len(source)] = 0

    def _replay(self, run: Callable[..., None], encode: bool, *sizes: int) -> None:
        """Run something on the buffers, which may begin with the encoder; it is captured when it is first met."""
        key = (encode, *sizes)
        if encode:
            self._encoded.of = ()  # until it is done
        if key not in self._captured:
            self._captured[key] = self._capturer.capture(partial(run, *key), self._arena.memory)
        self._captured[key]()
        if encode:
            self._encoded.of = self._to_read


class SteppingSession(Session, ABC):
    """Writes step by step; a step looks at the cache rows that there may be by then."""

    @abstractmethod
    def _run_step(self, n_seen: int, special: bool) -> None:
        """Take a step that looks at `n_seen` rows, or the first step where that has a choice of its own."""

    def _take_steps(self, most: int, unasked: int, n_left: str, special_first: bool = False) -> int:
        """Encode, and step until the host's `n_left[step]` is 0, which nobody asks before step `unasked`.

        Returns the number of steps; all results are on the host then.
        """
        taken, unasked = 0, min(unasked, most)
        while taken < unasked:
            taken += self._take(taken, unasked - taken, special_first)
        while True:
            self._arena.ask()
            ahead = self._take(taken, 1) if self._ahead and taken < most else 0  # in vain where all has ended
            self._arena.wait()
            if taken == most or not self._host[n_left][taken - 1]:
                return taken
            taken += ahead or self._take(taken, 1)

    def _take(self, taken: int, wanted: int, special_first: bool = False) -> int:
        """Take some steps of those wanted, after so many others; return how many."""
        count = together(wanted, self._model.most_together)
        n_seen = min(rung((taken + count) * self._bucket.width, self._layers.ladder), self._bucket.room)
        self._replay(self._run, taken == 0, count, n_seen, special_first and taken == 0)
        return count

    def _run(self, encode: bool, count: int, n_seen: int, special_first: bool) -> None:
        """Run what is captured; after the encoder come the first steps, which see what they write and no more."""
        if encode:
            self._run_encoder()
        for number in range(count):
            seen = (number + 1) * self._bucket.width if encode else n_seen
            self._run_step(seen, special_first and number == 0)


def together(wanted: int, most: int) -> int:
    """Say how many steps one graph takes: several at once where so many are wanted, or one.

    >>> [together(wanted, 4) for wanted in (9, 4, 3, 0)]
    [4, 4, 1, 1]
    """
    return most if wanted >= most else 1


def mask_width(room: int, n_rows: int) -> int:
    """Return the width of a mask over cache rows that also has places for the step after the last one.

    >>> mask_width(64, 10)
    80
    """
    return room + -(-n_rows // 16) * 16


def steps_before_asking(source_length: int, n_segments: int) -> int:
    """Say before which step hardly any sentence has ended: asking the device costs as much as a few kernels.

    The longest of several segments is longer than their mean; one segment may be shorter than the source.

    >>> steps_before_asking(25, 10), steps_before_asking(25, 1)
    (4, 19)
    """
    return -(-source_length // n_segments) + 1 if n_segments > 1 else -(-3 * source_length // 4)
