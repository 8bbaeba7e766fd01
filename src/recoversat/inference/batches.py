"""Ids in, segments out: sources in batches, each decoded the way its engine and the wish ask for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from recoversat.config import DecodeConfig
from recoversat.decoding.beam import beam_search
from recoversat.decoding.oneshot import Score, Writer, decode_lengths, decode_once
from recoversat.decoding.segmentwise import Decoded, Forced, decode_segments, max_steps
from recoversat.decoding.stepping import Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.engine import BoundedEngine, Engine, OneShotEngine, WholeDecoder
from recoversat.errors import UserError
from recoversat.inference.request import Wish
from recoversat.vocab import EOS


@dataclass(frozen=True)
class BatchDecoder:
    """An engine and how its model is set to write; a `judge` chooses among lengths of a one-step model (LPD)."""

    engine: Engine | OneShotEngine
    settings: DecodeConfig
    judge: Score | None = None
    n_lengths: int = 9

    def decode(
        self, sources: list[list[int]], lengths: list[int], k: Ints, wish: Wish, forced: Sequence[Forced] | None
    ) -> Iterator[tuple[int, Decoded]]:
        """Decode all sources that have a length; yields each with its number, batch by batch."""
        for batch in self.batches(lengths, k, wish.beam, wish.batch_size):
            between_steps()  # an engine that decodes whole sentences is stopped here at least
            batch_forced = [forced[i] for i in batch] if forced else None
            yield from zip(batch, self._decode([sources[i] for i in batch], k[batch], wish, batch_forced), strict=True)

    def batches(self, lengths: Sequence[int], k: Ints, beam: int, batch_size: int) -> Iterator[list[int]]:
        """Group texts of like length, the largest batch first; an engine whose memory is bounded gets smaller ones."""
        order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
        widest = int(k.max(initial=1))
        while order:
            size, longest = batch_size, lengths[order[0]]
            most = self.engine.largest_batch(longest, widest) if isinstance(self.engine, BoundedEngine) else None
            if most is not None:
                size = min(batch_size, max(1, most // beam))  # each hypothesis takes the place of a sentence
            yield order[:size]
            order = order[size:]

    def _decode(
        self, sources: list[list[int]], n_segments: Ints, wish: Wish, forced: list[Forced] | None
    ) -> list[Decoded]:
        limits = max_steps(np.array([len(ids) for ids in sources]), n_segments, self.settings.extra_steps)
        if isinstance(self.engine, OneShotEngine):
            return self._at_once(self.engine.open(sources), sources)
        if wish.beam > 1:
            return self._search(self.engine, sources, n_segments, limits, wish, forced)
        if isinstance(self.engine, WholeDecoder):
            return self.engine.decode(sources, n_segments, limits, forced, wish.alternatives)
        stepper, scored = self.engine.start(sources, n_segments), wish.scores or wish.alternatives > 0
        return decode_segments(stepper, n_segments, limits, forced, wish.alternatives, scored)

    def _search(
        self, engine: Engine, sources: list[list[int]], n_segments: Ints, limits: Ints, wish: Wish,
        forced: list[Forced] | None,
    ) -> list[Decoded]:  # fmt: skip
        """Write one segment by beam search."""
        beam, alpha = wish.beam, self.settings.length_penalty
        if (k := int(n_segments.max())) > 1:
            raise UserError(f"--beam {beam}: beam search writes one segment, this would be {k}; add --segments 1")
        if forced or wish.alternatives:
            raise UserError(f"--beam {beam}: a beam is neither forced nor traced; leave out --beam, --force or --trace")
        if isinstance(engine, WholeDecoder):
            found = engine.search(sources, limits, beam, alpha)
        else:
            found = beam_search(engine.start(sources, n_segments), limits, beam, alpha)
        ends = [[EOS] if nbest.best.closed else [] for nbest in found]
        return [
            Decoded([nbest.best.tokens + end], [nbest.best.token_log_probs], nbest.steps)
            for nbest, end in zip(found, ends, strict=True)
        ]

    def _at_once(self, writer: Writer, sources: list[list[int]]) -> list[Decoded]:
        """Write with a one-step model: in the length it predicts, or in several that a teacher judges."""
        found = decode_lengths(writer, sources, self.judge, self.n_lengths) if self.judge else decode_once(writer)
        return [Decoded([[*one.tokens, EOS]], [one.log_probs], steps=1) for one in found]
