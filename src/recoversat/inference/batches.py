"""Ids in, segments out: sources in batches of like length, decoded or searched as a request asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Bools, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.errors import UserError
from recoversat.inference.best_of import BestOf, Counts, IdsOf
from recoversat.inference.exact import decode_exactly
from recoversat.inference.request import Request


def options_for(request: Request, forced: Sequence[Forced] | None, begins: Bools | None) -> Options:
    """Tell engines how to write; `begins` (V,) is what a segment may begin with, where not every token may."""
    decode = request.decode
    return Options(
        decode.extra_steps, decode.length_penalty, forced or None, request.top_tokens,
        request.scores is True or request.top_tokens > 0, shortlist=decode.shortlist, verified=decode.verify_shortlist,
        iterations=decode.iterations, lengths=decode.lengths, tolerance=decode.tolerance,
        begins=None if forced else begins,  # a caller may force a part of a word
    )  # fmt: skip


def decode_batches(
    engine: Engine, sources: Sources, counts: Sequence[Counts], request: Request, options: Options, ids_of: IdsOf
) -> Iterator[tuple[int, Decoded]]:
    """Decode all sources that have a K; yields each with its number, batch by batch, the longest first.

    A source that has several is written with each; `ids_of` says what a reader would get of each.
    """
    order = sorted((i for i, own in enumerate(counts) if own), key=lambda i: -len(sources[i]))
    for at in range(0, len(order), request.batch_size):
        batch = order[at : at + request.batch_size]
        between_steps()  # an engine that decodes whole sentences is stopped here at least
        some, own = [sources[i] for i in batch], [counts[i] for i in batch]

        def ids_in(place: int, decoded: Decoded, batch: list[int] = batch) -> list[int]:
            return ids_of(batch[place], decoded)

        yield from zip(batch, _decode(engine, some, own, request, options.of(batch), ids_in), strict=True)


def _decode(
    engine: Engine, sources: Sources, counts: list[Counts], request: Request, options: Options, ids_of: IdsOf
) -> list[Decoded]:
    n_segments = np.array([own[0] for own in counts])
    if (beam := request.beam) > 1:
        if (k := int(n_segments.max())) > 1:
            raise UserError(f"beam {beam}: beam search writes one segment, this would be {k}; choose segments 1")
        if options.forced or options.top_tokens:
            raise UserError(f"beam {beam}: a beam is neither forced nor traced; leave out the beam, or the other")
        return engine.search(sources, beam, options)
    if request.decode.exact and not options.forced:
        return decode_exactly(engine, sources, n_segments, _noting(options, request, n_segments))
    if request.is_judged and not options.forced:
        return BestOf(engine, request.decode.doubt).decode(sources, counts, options, ids_of)
    return engine.decode(sources, n_segments, _noting(options, request, n_segments))


def _noting(options: Options, request: Request, n_segments: Ints) -> Options:
    """Have log-probabilities noted where some are wanted of what one segment says: they take no pass of their own."""
    says_one = request.decode.exact or 1 in n_segments
    return replace(options, scores=True) if request.scores == "one" and says_one else options
