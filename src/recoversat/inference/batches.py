"""Ids in, segments out: sources in batches of like length, decoded or searched as a request asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from recoversat.config import DecodeConfig
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Bools, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.engine import Engine, Options
from recoversat.errors import UserError
from recoversat.inference.best_of import BestOf, Counts, IdsOf
from recoversat.inference.exact import decode_exactly
from recoversat.inference.request import Request


@dataclass(frozen=True)
class BatchDecoder:
    """An engine and how its model is set to write."""

    engine: Engine
    settings: DecodeConfig
    begins: Bools | None = None  # (V,) what a segment may begin with, where not every token may

    def decode(
        self,
        sources: list[list[int]],
        counts: Sequence[Counts],
        request: Request,
        forced: Sequence[Forced] | None,
        ids_of: IdsOf,
    ) -> Iterator[tuple[int, Decoded]]:
        """Decode all sources that have a K; yields each with its number, batch by batch, the longest first.

        A source that has several is written with each; `ids_of` says what a reader would get of each.
        """
        order = sorted((i for i, own in enumerate(counts) if own), key=lambda i: -len(sources[i]))
        for at in range(0, len(order), request.batch_size):
            batch = order[at : at + request.batch_size]
            between_steps()  # an engine that decodes whole sentences is stopped here at least
            batch_forced = [forced[i] for i in batch] if forced else None
            some, own = [sources[i] for i in batch], [counts[i] for i in batch]
            written = self._decode(some, own, request, batch_forced, partial(_ids_in, batch, ids_of))
            yield from zip(batch, written, strict=True)

    def _decode(
        self,
        sources: list[list[int]],
        counts: list[Counts],
        request: Request,
        forced: list[Forced] | None,
        ids_of: IdsOf,
    ) -> list[Decoded]:
        n_segments = np.array([own[0] for own in counts])
        options = Options(
            self.settings.extra_steps, self.settings.length_penalty, forced, request.top_tokens,
            request.scores or request.top_tokens > 0, shortlist=self.settings.shortlist,
            verified=self.settings.verify_shortlist,
            iterations=self.settings.iterations, lengths=self.settings.lengths,
            begins=None if forced else self.begins,  # a caller may force a part of a word
        )  # fmt: skip
        if request.beam > 1:
            return self._search(sources, n_segments, request.beam, options)
        if request.decode.exact and not forced:
            return decode_exactly(self.engine, sources, n_segments, options)
        if request.is_judged and not forced:
            return BestOf(self.engine, request.decode.doubt).decode(sources, counts, options, ids_of)
        return self.engine.decode(sources, n_segments, options)

    def _search(self, sources: list[list[int]], n_segments: Ints, beam: int, options: Options) -> list[Decoded]:
        """Write one segment by beam search."""
        if (k := int(n_segments.max())) > 1:
            raise UserError(f"beam {beam}: beam search writes one segment, this would be {k}; choose segments 1")
        if options.forced or options.top_tokens:
            raise UserError(f"beam {beam}: a beam is neither forced nor traced; leave out the beam, or the other")
        return self.engine.search(sources, beam, options)


def _ids_in(batch: list[int], ids_of: IdsOf, place: int, decoded: Decoded) -> list[int]:
    """Ask for a sentence by its place in a batch."""
    return ids_of(batch[place], decoded)
