"""Ids in, segments out: sources in batches of like length, decoded or searched as a request asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Bools, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.errors import UserError
from recoversat.inference.exact import decode_exactly
from recoversat.inference.request import Request


def options_for(request: Request, forced: Sequence[Forced] | None, begins: Bools | None) -> Options:
    """Tell engines how to write; `begins` (V,) is what a segment may begin with, where not every token may."""
    decode = request.decode
    return Options(
        decode.extra_steps, decode.length_penalty, decode.beam_rule == "transformers", forced or None,
        request.top_tokens, request.scores is True or request.top_tokens > 0, shortlist=decode.shortlist,
        verified=decode.verify_shortlist, iterations=decode.iterations, lengths=decode.lengths,
        tolerance=decode.tolerance,
        begins=None if forced else begins,  # a caller may force a part of a word
    )  # fmt: skip


def decode_batches(
    engine: Engine, sources: Sources, counts: Sequence[int], request: Request, options: Options
) -> Iterator[tuple[int, Decoded]]:
    """Decode all sources whose K is not 0; yields each with its number, batch by batch, the longest first."""
    order = sorted((i for i, k in enumerate(counts) if k), key=lambda i: -len(sources[i]))
    for at in range(0, len(order), request.batch_size):
        batch = order[at : at + request.batch_size]
        between_steps()  # an engine that decodes whole sentences is stopped here at least
        n_segments = np.array([counts[i] for i in batch])
        decoded = _decode(engine, [sources[i] for i in batch], n_segments, request, options.of(batch))
        yield from zip(batch, decoded, strict=True)


def _decode(engine: Engine, sources: Sources, n_segments: Ints, request: Request, options: Options) -> list[Decoded]:
    if (beam := request.beam) > 1:
        if (k := int(n_segments.max())) > 1:
            raise UserError(f"beam {beam}: beam search writes one segment, this would be {k}; choose segments 1")
        if options.forced or options.top_tokens:
            raise UserError(f"beam {beam}: a beam is neither forced nor traced; leave out the beam, or the other")
        return engine.search(sources, beam, options)
    if request.decode.exact and not options.forced:
        return decode_exactly(engine, sources, n_segments, _noting(options, request, n_segments))
    return engine.decode(sources, n_segments, _noting(options, request, n_segments))


def _noting(options: Options, request: Request, n_segments: Ints) -> Options:
    """Have log-probabilities noted where some are wanted of what one segment says: they take no pass of their own."""
    says_one = request.decode.exact or 1 in n_segments
    return replace(options, scores=True) if request.scores == "one" and says_one else options
