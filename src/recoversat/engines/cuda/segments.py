"""Write all segments of a batch in one bucket of sizes: one graph encodes, a few graphs take steps.

A graph holds a whole step: rows, token choice, termination and the writes to cache and log. The host only asks, now
and then, whether all segments have ended. B sentences, S source, K segments, R = B * K, T steps, M cache rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.cuda.capture import Capturer, Graphs, steps_before_asking
from recoversat.engines.cuda.model import GraphModel, Rows
from recoversat.engines.cuda.state import Arena, Field, SegmentState, hidden
from recoversat.vocab import BOS, PAD, TERMINATORS


@dataclass(frozen=True)
class SegmentBucket:
    """Sizes that a set of graphs is made for."""

    batch: int
    source: int
    segments: int
    room: int  # cache rows: a multiple of 64

    @property
    def steps(self) -> int:
        """How many steps there is room for."""
        return self.room // self.segments


class SegmentSession:
    """The buffers and graphs of one bucket."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: SegmentBucket) -> None:
        self._model, self._bucket = model, bucket
        weights, device = model.weights, model.weights.device
        self._arena = Arena(_fields(bucket, weights.dtype), device)
        tensors = self._arena.device
        n_rows = bucket.batch * bucket.segments
        log = torch.zeros((bucket.steps, 2, n_rows), dtype=torch.int32, device=device)
        flat = {name: tensors[name].view(-1) for name in ("single", "limits", "active", "tokens", "steps")}
        rest = {name: tensors[name] for name in ("rows", "n_active", "row_mask")}
        self._state = SegmentState(**flat, **rest, log=log, n_segments=bucket.segments)
        self._hidden = hidden(weights.dtype)
        self._arena.host["rows"][:] = np.arange(bucket.segments)
        self._arena.host["row_mask"][:] = self._hidden
        self._memory = model.new_memory(bucket.batch, bucket.source, tensors["source_mask"])
        self._source_positions = weights.source_positions(bucket.source)
        self._rows = Rows(
            model.new_caches(bucket.batch, bucket.room),
            weights.row_positions(bucket.room, bucket.segments),
            self._state.rows,
            self._state.row_mask[:, None],
        )
        self._graphs = Graphs(capturer, self._arena.memory, self._run_encoder, self._run_step, bucket.room)

    def drop(self) -> None:
        """Let go of the graphs; the session is not used again."""
        self._graphs.drop()

    def decode(
        self, sources: Sequence[Sequence[int]], n_segments: Ints, limits: Ints, barred: bool = False
    ) -> list[Decoded]:
        """Write the translations of sources that fit the bucket; `barred`: not all tokens may begin a segment."""
        self._fill(sources, n_segments, limits)
        self._arena.upload()
        self._graphs.encode()
        unasked = steps_before_asking(max(len(source) for source in sources), int(n_segments.max()))
        taken = self._graphs.take_steps(int(limits.max()), unasked, self._bucket.segments, self._state.n_active, barred)
        return self._collect(taken, n_segments, limits)

    def _run_encoder(self) -> None:
        self._model.encode(self._arena.device["src"], self._source_positions, self._memory)

    def _run_step(self, n_seen: int, barred: bool) -> None:
        hidden = self._model.step(self._state.tokens, self._rows, n_seen, self._memory)
        logits = self._model.logits(hidden, single=self._bucket.segments == 1)
        if barred:
            logits.masked_fill_(self._model.barred & (self._state.single == 0)[:, None], -torch.inf)
        self._model.ops.choose(logits, self._state)

    def _fill(self, sources: Sequence[Sequence[int]], n_segments: Ints, limits: Ints) -> None:
        """Write sources and the state before the first step on the host; places without a sentence end at once."""
        host, k, count = self._arena.host, self._bucket.segments, len(sources)
        fill_sources(sources, host["src"], host["source_mask"], self._hidden)
        bounds, segments = np.ones((2, self._bucket.batch, 1), dtype=np.int64)
        bounds[:count, 0], segments[:count, 0] = limits, n_segments
        active = np.arange(k) < segments  # (B, K)
        host["single"][:], host["limits"][:] = segments == 1, bounds
        host["active"][:], host["tokens"][:] = active, np.where(active, BOS, PAD)
        host["row_mask"][:, :k] = np.where(active, 0, self._hidden)

    def _collect(self, taken: int, n_segments: Ints, limits: Ints) -> list[Decoded]:
        """Fetch what was noted in the steps taken."""
        batch, k = len(n_segments), self._bucket.segments
        log = self._state.log[:taken].cpu().numpy().reshape(taken, 2, self._bucket.batch, k)[:, :, :batch]
        tokens = log[:, 0].transpose(1, 2, 0)  # (B, K, T)
        lengths = _lengths(tokens, limits)
        log_probs = np.ascontiguousarray(log[:, 1]).view(np.float32).transpose(1, 2, 0)
        listed = zip(tokens.tolist(), log_probs.tolist(), lengths.tolist(), n_segments.tolist(), strict=True)
        return [_decoded(*lists) for lists in listed]


def _fields(bucket: SegmentBucket, dtype: torch.dtype) -> dict[str, Field]:
    rows, integers = (bucket.batch, bucket.segments), torch.int64
    return {
        "src": Field((bucket.batch, bucket.source), integers),
        "single": Field(rows, integers),
        "limits": Field(rows, integers),
        "tokens": Field(rows, integers),
        "steps": Field(rows, integers),
        "rows": Field((bucket.segments,), integers),
        "active": Field(rows, torch.int32),
        "n_active": Field((bucket.steps,), torch.int32),
        "source_mask": Field((bucket.batch, bucket.source), dtype),
        "row_mask": Field((bucket.batch, mask_width(bucket.room, bucket.segments)), dtype),
    }


def mask_width(room: int, n_rows: int) -> int:
    """Return the width of a mask over cache rows that also has places for the step after the last one.

    >>> mask_width(64, 10)
    80
    """
    return room + -(-n_rows // 16) * 16


def fill_sources(sources: Sequence[Sequence[int]], src: Ints, mask: NDArray[Any], nothing: float) -> None:
    """Lay sources side by side; a place without a sentence gets one of a single token."""
    src[:] = PAD
    mask[:] = nothing
    mask[:, 0] = 0
    for line, source in enumerate(sources):
        src[line, : len(source)] = source
        mask[line, : len(source)] = 0


def _decoded(tokens: list[list[int]], log_probs: list[list[float]], lengths: list[int], count: int) -> Decoded:
    """Cut each of a sentence's segments at its length; those beyond its own `count` do not exist."""
    lengths = lengths[:count]
    cut_tokens = [line[:n] for line, n in zip(tokens, lengths, strict=False)]
    return Decoded(cut_tokens, [line[:n] for line, n in zip(log_probs, lengths, strict=False)], max(lengths))


def _lengths(tokens: NDArray[np.int32], limits: Ints) -> Ints:
    """Count the tokens of each segment (B, K), its EOS or DEL included."""
    ended = (tokens == TERMINATORS[0]) | (tokens == TERMINATORS[1])
    first = np.where(ended.any(axis=-1), ended.argmax(axis=-1) + 1, tokens.shape[-1])
    return np.asarray(np.minimum(first, np.maximum(limits, 1)[:, None]))
