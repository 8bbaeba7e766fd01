"""The GPU engine: whole sentences decoded by captured CUDA graphs over static buffers.

Sizes are rounded up to buckets; each bucket has its buffers and graphs, made when it is first met and dropped when
others have been used more recently. On a CPU everything runs the same way without graphs, which is how it is tested.
All calls share the buffers, so threads that call one engine wait for each other: it is made for one thread.

Why by hand: torch.compile(mode="reduce-overhead") takes 1.3 times as long at batch 1 (K = 10, d 512, an H200), 1.1
times at batch 64, and 12-15 s to compile for each batch size; capturing takes 0.3 s (`results/2026-11-16-engines`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import Lock
from typing import TypeVar

import numpy as np
import torch

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.cuda.beam import BeamSession
from recoversat.engines.cuda.beam_transformers import TransformersBeamSession
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.causal import CausalSession, GraphVerifier
from recoversat.engines.cuda.check import check_few_rows, check_ops
from recoversat.engines.cuda.layers import FewRowsFinder
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.ops import find_ops
from recoversat.engines.cuda.segments import SegmentSession
from recoversat.engines.cuda.session import Bucket, Session
from recoversat.engines.cuda.state import SEEN, rung
from recoversat.engines.cuda.weights import collect_weights
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.pairs import Pair, equal_rows, in_batches, scored
from recoversat.engines.torch.engine import TorchEngine
from recoversat.model.transformer import Transformer
from recoversat.vocab import DEL, NEVER_EMITTED

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SOURCES = (16, 32, 48, 64, 96, 128, 192, 256)
SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
AHEAD = 31  # tokens of a draft verified at once: rows cost next to nothing here
_SCORED_ROWS = 8192  # of a batch of given translations
_BUCKETS_KEPT = 96
_MEMORY_SHARE = 4  # a quarter of the GPU's memory is for buffers
_CPU_MEMORY = 1 << 30

_Kind = TypeVar("_Kind", SegmentSession, BeamSession, TransformersBeamSession, CausalSession)
_Result = TypeVar("_Result")


class GraphEngine(Engine):
    """Decode with a Transformer as CUDA graphs; the reference engine forces, traces, and scores several segments.

    `fused`: use the Triton kernels (None: where they work).
    """

    drafts_pay_from = 18  # with 14 tokens they cost 11 % where all are drafted, with 21 they pay (docs/log.md, "Exact")

    def __init__(
        self,
        model: Transformer,
        device: torch.device,
        dtype: torch.dtype = torch.float16,
        *,
        fused: bool | None = None,
        max_buckets: int = _BUCKETS_KEPT,
        max_bytes: int | None = None,
    ) -> None:
        self._device = device
        with torch.inference_mode(), self._on_device():
            weights = collect_weights(model, device, dtype)
            ops = find_ops(device, lambda fused, plain: check_ops(fused, plain, weights), fused)
            finder = FewRowsFinder(weights, ops, partial(check_few_rows, weights), fused)
            self._model = GraphModel(weights, ops, finder.find)
            self._capturer = Capturer(device)
        self._reference = TorchEngine(model, device, dtype)
        self._max_buckets, self._max_bytes = max_buckets, max_bytes or _memory_for_buffers(device)
        self._sessions: dict[tuple[type[Session], Bucket], Session] = {}  # the longest unused first
        self._lock = Lock()

    @property
    def max_segments(self) -> int:
        return self._model.weights.sizes.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        return self._reference.description | {"engine": f"graphs ({self._model.ops.name})"}

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets whose graphs are kept, the most recently used one last."""
        return [bucket for _, bucket in self._sessions]

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        if options.top_tokens or (options.forced and any(options.forced)):  # too rare to be worth graphs of their own
            return self._reference.decode(sources, n_segments, options)
        limits = np.maximum(options.most_steps(sources, n_segments), 1)
        k = rung(int(n_segments.max(initial=1)), SEGMENTS)
        source, room = self._lengths(sources, limits, k)
        barred = options.begins is not None and k > 1

        def decode(bucket: Bucket, part: slice) -> list[Decoded]:
            session = self._session(SegmentSession, bucket)
            if options.begins is not None:
                self._model.barred[: len(options.begins)].copy_(torch.from_numpy(~options.begins))
            return session.decode(sources[part], n_segments[part], limits[part], barred)

        return self._in_parts(decode, len(sources), source, k, room)

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        limits = np.maximum(options.most_steps(sources, np.ones(len(sources), dtype=np.int64)), 1)
        source, room = self._lengths(sources, limits, beam)

        def search(bucket: Bucket, part: slice) -> list[Decoded]:
            session: BeamSession = (
                self._session(TransformersBeamSession, bucket)
                if options.as_transformers
                else self._session(BeamSession, bucket)
            )
            return session.search(sources[part], limits[part], options.length_penalty)

        return self._in_parts(search, len(sources), source, beam, room)

    def verifier(self, source: Sequence[int], room: int, options: Options = Options()) -> GraphVerifier:
        bucket = Bucket(1, rung(len(source), SOURCES), AHEAD + 1, rung(room + AHEAD + 1, SEEN))

        @contextmanager
        def session() -> Iterator[CausalSession]:
            with self._alone():
                yield self._session(CausalSession, bucket)

        return GraphVerifier(session, AHEAD, source)

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        """Run all rows of a target at once; the reference engine also scores what decoding never writes."""
        if n_segments > 1 or any(not {*NEVER_EMITTED, DEL}.isdisjoint(target) for _, target in pairs):
            return self._reference.score(pairs, n_segments)
        return in_batches(pairs, 1, _SCORED_ROWS, lambda batch: self._score([pairs[i] for i in batch]))

    def _score(self, pairs: Sequence[Pair]) -> list[Decoded]:
        longest = max(len(target) for _, target in pairs)
        source, n_rows = rung(max(len(source) for source, _ in pairs), SOURCES), rung(longest + 1, SOURCES)

        def score(bucket: Bucket, part: slice) -> list[list[float]]:
            sources, targets = zip(*pairs[part], strict=True)
            return self._session(CausalSession, bucket).score(sources, targets)

        log_probs = self._in_parts(score, len(pairs), source, n_rows, rung(n_rows, SEEN))
        return [scored(equal_rows(target, 1), own) for (_, target), own in zip(pairs, log_probs, strict=True)]

    def deletions(self, pairs: Sequence[Pair]) -> list[list[float]]:
        return self._reference.deletions(pairs)

    def _lengths(self, sources: Sources, limits: Ints, rows_a_step: int) -> tuple[int, int]:
        longest = max((len(source) for source in sources), default=1)
        return rung(longest, SOURCES), rung(int(limits.max(initial=1)) * rows_a_step, SEEN)

    def _in_parts(
        self, work: Callable[[Bucket, slice], list[_Result]], count: int, source: int, width: int, room: int
    ) -> list[_Result]:
        """Work on as many sentences at a time as buckets and memory allow."""
        size = BATCHES[-1]
        while size > 1 and (
            self._model.session_bytes(size, source, room) + self._model.step_bytes(size * width) > self._max_bytes
        ):
            size //= 2
        results: list[_Result] = []
        with self._alone():
            for at in range(0, count, size):
                part = slice(at, min(at + size, count))
                results += work(Bucket(rung(part.stop - at, BATCHES), source, width, room), part)
        return results

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Use the buffers while no other thread does."""
        with self._lock, torch.inference_mode(), self._on_device():
            yield

    def _session(self, kind: type[_Kind], bucket: Bucket) -> _Kind:
        """Return the buffers and graphs of a bucket, made now or earlier; makes room by dropping the longest unused."""
        session = self._sessions.pop((kind, bucket), None)
        if session is None:
            while self._sessions and not self._has_room_for(bucket):
                self._sessions.pop(next(iter(self._sessions))).drop()
            session = kind(self._model, self._capturer, bucket)
        self._sessions[kind, bucket] = session
        assert isinstance(session, kind)
        return session

    def _has_room_for(self, bucket: Bucket) -> bool:
        taken = sum(self._model.session_bytes(b.batch, b.source, b.room) for b in (*self.buckets, bucket))
        return len(self._sessions) < self._max_buckets and taken <= self._max_bytes

    def _on_device(self) -> AbstractContextManager[object]:
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()


def _memory_for_buffers(device: torch.device) -> int:
    if device.type != "cuda":
        return _CPU_MEMORY
    return torch.cuda.get_device_properties(device).total_memory // _MEMORY_SHARE
