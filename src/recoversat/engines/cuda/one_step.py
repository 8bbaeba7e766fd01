"""Models that write all at once as CUDA graphs over static buffers: one encodes a batch, one fills its places.

Sizes are rounded up to buckets, as `engines.cuda.engine` does it. On a CPU everything runs the same way without graphs,
which is how it is tested. B sentences, S source, R translations to write, N places of the longest, C length classes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import RLock

import numpy as np
import torch

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.cuda.capture import Capturer, Replay
from recoversat.engines.cuda.engine import BATCHES, SOURCES
from recoversat.engines.cuda.state import Arena, Field, rung
from recoversat.engines.engine import Options, Sources
from recoversat.engines.one_step import OneStepEngine
from recoversat.engines.torch.engine import describe_torch
from recoversat.engines.torch.nat import likeliest, places
from recoversat.model.nat import NatTransformer, likeliest_lengths
from recoversat.vocab import N_SPECIAL

_BATCHES_KEPT, _FILLS_KEPT = 16, 8  # of each batch


class GraphOneStepEngine(OneStepEngine):
    """Write with a NatTransformer whose two passes are captured, each for the sizes it has met."""

    def __init__(self, model: NatTransformer, device: torch.device, dtype: torch.dtype = torch.float16) -> None:
        self._model, self._config = model.to(device, dtype).eval(), model.config
        self._device, self._capturer = device, Capturer(device)
        self._batches: OrderedDict[tuple[int, int], _Batch] = OrderedDict()
        self._lock = RLock()

    @property
    def description(self) -> dict[str, str | int]:
        return describe_torch(self._model, self._device) | {"engine": "graphs"}

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        with self._lock:  # the buffers hold one batch at a time
            return super().decode(sources, n_segments, options)

    @torch.inference_mode()
    def open(self, sources: Sources) -> "_Batch":
        size = rung(len(sources), BATCHES), rung(max(len(source) for source in sources), SOURCES)
        if size not in self._batches:
            while len(self._batches) >= _BATCHES_KEPT:
                self._batches.popitem(last=False)
            self._batches[size] = _Batch(self._model, self._capturer, *size)
        self._batches.move_to_end(size)
        return self._batches[size].encode(sources)


class _Batch:
    """Encoded sources of one bucket; see `decoding.oneshot.Filler`."""

    def __init__(self, model: NatTransformer, capturer: Capturer, size: int, source: int) -> None:
        self._model, self._capturer = model, capturer
        device, dtype = model.embedding.weight.device, model.embedding.weight.dtype
        long = torch.int64
        self._arena = Arena({"src": Field((size, source), long), "lengths": Field((size,), long)}, device)
        self._positions, self._real = places(self._arena.device["lengths"], source)
        heads = (size, model.config.n_heads, source, model.config.d_model // model.config.n_heads)
        self._memory = [
            (torch.zeros(heads, device=device, dtype=dtype), torch.zeros(heads, device=device, dtype=dtype))
            for _ in model.decoder.stack
        ]
        self._length_logits = torch.zeros((size, model.n_length_classes), device=device)
        self._fills: OrderedDict[tuple[int, int, int], _Fill] = OrderedDict()
        self._encode: Replay | None = None
        self._n_sources = 0

    def encode(self, sources: Sources) -> "_Batch":
        """Read the sources."""
        self._n_sources = len(sources)
        src, lengths = self._arena.host["src"], self._arena.host["lengths"]
        for line, source in enumerate(sources):
            src[line, : len(source)], lengths[line] = source, len(source)
        self._arena.upload()
        if self._encode is None:
            self._encode = self._capturer.capture(self._run_encoder, self._arena.memory)
        self._encode()
        return self

    def _run_encoder(self) -> None:
        model, (src, lengths) = self._model, self._arena.device.values()
        self._real.copy_(places(lengths, src.shape[1])[1])
        memory = model.encode(src, self._positions, self._real)
        for kept, new in zip(self._memory, model.project(memory), strict=True):
            for to, this in zip(kept, new, strict=True):
                to.copy_(this)
        if model.n_length_classes:
            self._length_logits.copy_(model.length_logits(memory, self._real, n_sentences=1)[:, 0])

    @torch.inference_mode()
    def likeliest_lengths(self, n: int) -> Ints:
        """Predict n target lengths of each source."""
        lengths = likeliest_lengths(self._length_logits, self._arena.device["lengths"], n)
        return np.asarray(lengths[: self._n_sources].cpu().numpy())

    @torch.inference_mode()
    def fill(self, members: Ints, tokens: Ints, lengths: Ints, least: int = N_SPECIAL) -> tuple[Ints, Floats]:
        """Take the likeliest token of every place."""
        size = rung(len(members), BATCHES), rung(tokens.shape[1], SOURCES), least
        if size not in self._fills:
            while len(self._fills) >= _FILLS_KEPT:
                self._fills.popitem(last=False)
            self._fills[size] = _Fill(self._model, self._capturer, self._memory, self._real, *size)
        self._fills.move_to_end(size)
        return self._fills[size].run(members, tokens, lengths)


class _Fill:
    """The pass that fills so many translations of so many places."""

    def __init__(
        self, model: NatTransformer, capturer: Capturer, memory: Sequence[tuple[torch.Tensor, torch.Tensor]],
        real: torch.Tensor, size: int, width: int, least: int,
    ) -> None:  # fmt: skip
        self._model, self._memory, self._real, self._least = model, memory, real, least
        fields = {"members": Field((size,), torch.int64), "lengths": Field((size,), torch.int64)}
        self._arena = Arena(fields | {"tokens": Field((size, width), torch.int64)}, real.device)
        self._tokens = torch.zeros((size, width), dtype=torch.int64, device=real.device)
        self._log_probs = torch.zeros((size, width), device=real.device)
        self._capturer = capturer
        self._replay: Replay | None = None

    def run(self, members: Ints, tokens: Ints, lengths: Ints) -> tuple[Ints, Floats]:
        """Fill the places of some translations; what an earlier call left behind them fills nobody's."""
        n, width = tokens.shape
        host = self._arena.host
        host["members"][:n], host["lengths"][:n], host["tokens"][:n, :width] = members, lengths, tokens
        self._arena.upload()
        if self._replay is None:
            self._replay = self._capturer.capture(self._run, self._arena.memory)
        self._replay()
        return self._tokens[:n, :width].cpu().numpy(), self._log_probs[:n, :width].cpu().numpy()

    def _run(self) -> None:
        given = self._arena.device
        steps, real = places(given["lengths"], given["tokens"].shape[1])  # (R, N)
        which = given["members"]
        memory = [(key[which], value[which]) for key, value in self._memory]
        hidden = self._model.decode_projected(given["tokens"], steps, real, memory, self._real[which])
        tokens, log_probs = likeliest(self._model, hidden, self._least)
        self._tokens.copy_(tokens)
        self._log_probs.copy_(log_probs)
