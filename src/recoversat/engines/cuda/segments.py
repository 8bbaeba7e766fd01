"""Write all segments of a batch in one bucket of sizes: one graph encodes, a few graphs take steps.

A graph holds a whole step: rows, token choice, termination and the writes to cache and log. The host only asks, now
and then, whether all segments have ended. B sentences, S source, K segments, R = B * K, T steps, M cache rows.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.session import Bucket, SteppingSession, mask_width, steps_before_asking
from recoversat.engines.cuda.state import Field, SegmentState
from recoversat.vocab import BOS, PAD, TERMINATORS


class SegmentSession(SteppingSession):
    """Writes K segments of every sentence."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: Bucket) -> None:
        batch, _, k, room = bucket
        given = {name: Field((batch, k)) for name in ("single", "limits", "tokens", "steps")} | {
            "rows": Field((k,)),
            "active": Field((batch, k), torch.int32),
            "row_mask": Field((batch, 1, mask_width(room, k)), model.weights.dtype),
        }
        both = {"n_active": Field((bucket.steps,), torch.int32)}
        found = {"log": Field((bucket.steps, 2, batch * k), torch.int32)}
        super().__init__(model, capturer, bucket, model.weights.row_positions(room, k), given, both, found)
        tensors = self._tensors
        flat = {name: tensors[name].view(-1) for name in ("single", "limits", "active", "tokens", "steps")}
        self._state = SegmentState(
            **flat, rows=tensors["rows"], n_active=tensors["n_active"], row_mask=tensors["row_mask"][:, 0],
            log=tensors["log"], n_segments=k,
        )  # fmt: skip
        self._host["rows"][:], self._host["row_mask"][:] = np.arange(k), self._hidden

    def decode(
        self, sources: Sequence[Sequence[int]], n_segments: Ints, limits: Ints, barred: bool = False
    ) -> list[Decoded]:
        """Write the translations of sources that fit the bucket; `barred`: not all tokens may begin a segment."""
        self._fill(sources, n_segments, limits)
        self._arena.upload()
        unasked = steps_before_asking(max(len(source) for source in sources), int(n_segments.max()))
        taken = self._take_steps(int(limits.max()), unasked, "n_active", barred)
        return self._collect(taken, n_segments, limits)

    def _run_step(self, n_seen: int, barred: bool) -> None:
        if not barred:
            self._layers.write(self._state, self._rows, n_seen, self._memory)
            return
        hidden = self._layers.hidden(self._state.tokens, self._rows, n_seen, self._memory)
        logits = self._model.logits(hidden, single=self._bucket.width == 1)
        logits.masked_fill_(self._model.barred & (self._state.single == 0)[:, None], -torch.inf)
        self._model.ops.choose(logits, self._state)

    def _fill(self, sources: Sequence[Sequence[int]], n_segments: Ints, limits: Ints) -> None:
        """Write sources and the state before the first step on the host; places without a sentence end at once."""
        host, k, count = self._host, self._bucket.width, len(sources)
        self._fill_sources(sources)
        host["n_active"][:] = 0
        bounds, segments = np.ones((2, self._bucket.batch, 1), dtype=np.int64)
        bounds[:count, 0], segments[:count, 0] = limits, n_segments
        active = np.arange(k) < segments  # (B, K)
        host["single"][:], host["limits"][:] = segments == 1, bounds
        host["active"][:], host["tokens"][:] = active, np.where(active, BOS, PAD)
        host["row_mask"][:, 0, :k] = np.where(active, 0, self._hidden)

    def _collect(self, taken: int, n_segments: Ints, limits: Ints) -> list[Decoded]:
        """Read what was noted in the steps taken."""
        batch, k = len(n_segments), self._bucket.width
        log = self._host["log"][:taken].reshape(taken, 2, self._bucket.batch, k)[:, :, :batch]
        tokens = log[:, 0].transpose(1, 2, 0)  # (B, K, T)
        lengths = _lengths(tokens, limits)
        log_probs = np.ascontiguousarray(log[:, 1]).view(np.float32).transpose(1, 2, 0)
        listed = zip(tokens.tolist(), log_probs.tolist(), lengths.tolist(), n_segments.tolist(), strict=True)
        return [_decoded(*lists) for lists in listed]


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
