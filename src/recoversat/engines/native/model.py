"""A model in the extension module: its weights, a decoder for each thread, and sentences that outlive a call.

B sentences, K segments, N rows, V vocabulary.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import NamedTuple

import numpy as np

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.native import _engine
from recoversat.engines.native._engine import KVCache, Sentence, Shortlist, Verify
from recoversat.engines.positions import Positions
from recoversat.errors import UserError
from recoversat.files.int8 import INT8, padded_size, read_int8

KIT = "RECOVERSAT_KIT"  # environment variable that names the kit
MAX_BYTES = 1 << 27  # kept by sentences that are written together, where memory is not bounded
_CACHED = 1 << 25  # bytes of weights that a cache may hold
_STEPS = 8  # between two checks for cancellation


@dataclass
class Writing:
    """A sentence that is written a few rows at a time."""

    source: KVCache
    written: KVCache
    bias: Floats  # (V,) added to logits
    kept: int = 0  # rows that count; what was written after them is forgotten


class Found(NamedTuple):
    """What rows (N,) find in the vocabulary; what is not wanted is empty."""

    best: Ints
    log_probs: Floats  # of the best pieces
    logits: Floats  # (N, V)
    given: Floats  # log-probabilities of the pieces that were given


class NativeModel:
    """The weights of a model, memory-mapped, and all that can be computed with them."""

    def __init__(self, folder: Path, config: ModelConfig, kit: str | None = None) -> None:
        self.kit, self.places = chosen_kit(kit), padded_size(config.vocab_size or 0)
        self.positions, self._local = Positions(config.d_model), local()
        arrays = read_int8(folder, config)
        try:
            self._model = _engine.Model(
                self.kit, arrays, d_model=config.d_model, d_hidden=config.d_hidden, n_heads=config.n_heads,
                encoder_layers=config.encoder_layers, decoder_layers=config.decoder_layers, pieces=self.places,
                segments=config.max_segments,
            )  # fmt: skip
        except _engine.ModelError as error:
            raise UserError(f"{folder / INT8}: {error}; export the model again") from None
        # rows that go through a product together: more would evict each other, fewer would wait for weights
        self.side_by_side = 8 if sum(array.nbytes for array in arrays.values()) < _CACHED else 16

    def decoder(self) -> _engine.Decoder:
        """Return the decoder of this thread."""
        if not hasattr(self._local, "decoder"):
            self._local.decoder = _engine.Decoder(self._model)
        decoder: _engine.Decoder = self._local.decoder
        return decoder

    def cache(self) -> KVCache:
        """Return an empty KV cache."""
        return KVCache(self._model)

    def encoded(self, source: Sequence[int]) -> KVCache:
        """Return the keys and values of a source."""
        return self.decoder().encode(source, self.positions.first(len(source)))

    def rows(
        self, sentences: Sequence[Writing], counts: Sequence[int], tokens: Ints, segments: Ints, step: int,
        causal: bool = False, scores: bool = True, logits: bool = False, given: Ints | None = None,
    ) -> Found:  # fmt: skip
        """Append counts[b] of the rows (N,) to sentence b; return what they find, of pieces that are given (N,) too.

        Those of a sentence stand in one step and see each other, or in steps that follow one another and see those
        before (`causal`).
        """
        n, scored = len(tokens), scores or given is not None
        best, log_probs = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.float32)
        every: Floats = np.empty((n if logits else 0, self.places), dtype=np.float32)
        likely: Floats = np.zeros(0 if given is None else n, dtype=np.float32)
        self.decoder().rows(
            [one.source for one in sentences], [one.written for one in sentences], [one.kept for one in sentences],
            list(counts), tokens.tolist(), segments.tolist(), self.positions.first(step + (n if causal else 1))[step:],
            causal, [one.bias for one in sentences], best, log_probs if scored else None, every if logits else None,
            None if given is None else given.tolist(), None if given is None else likely,
        )  # fmt: skip
        for one, count in zip(sentences, counts, strict=True):
            one.kept += count
        return Found(best.astype(np.int64), log_probs, every, likely)

    def write(
        self, sentences: Sequence[Sentence], shortlist: Shortlist | None = None, scores: bool = False,
        max_bytes: int = MAX_BYTES, verify: Verify = Verify.NO,
    ) -> list[Decoded]:  # fmt: skip
        """Write sentences, each as it would be alone; those written at the same time keep so many bytes at most."""
        decoder = self.decoder()
        positions = self.positions.first(max(one.longest for one in sentences))
        decoder.begin(sentences, positions, shortlist, scores, self.side_by_side, max_bytes, verify)
        while decoder.advance(_STEPS):
            between_steps()
        return [Decoded(one.segments, one.log_probs, one.steps) for one in sentences]


def chosen_kit(name: str | None = None) -> str:
    """Return the kit that is asked for, here or in the environment, else the fastest that this processor runs."""
    usable, name = _engine.kits(), name or os.environ.get(KIT)
    if name and name not in usable:
        raise UserError(f"{KIT}: this processor cannot run the kit {name!r}; choose {', '.join(usable)}")
    return name or usable[0]
