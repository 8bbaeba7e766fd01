"""Exact: the words that K = 1 writes, drafted by K segments and verified (`recoversat.decoding.verify`).

It takes fewer calls of the model than K = 1 has tokens, and more work in each. A sentence alone waits for calls, a
batch for work: of several sentences, and of one so short that it is not divided, K = 1 writes every token itself.

With a tolerance K = 1 lets more of a draft stand; then every sentence is drafted and verified by itself, lest it depend
on its batch.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.decoding.verify import write_verified
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.segments import assemble


def decode_exactly(engine: Engine, sources: Sources, n_segments: Ints, options: Options) -> list[Decoded]:
    """Write what K = 1 writes; sentence b may be drafted in n_segments[b] segments."""
    if options.tolerance:
        return _decode_nearly(engine, sources, n_segments, options)
    if n_segments.tolist() == [1]:
        return engine.decode(sources, n_segments, options)
    if len(sources) > 1 or options.top_tokens:  # what else was likely is known step by step only
        return decode_greedily(engine, sources, options)
    sources = engine.encode(sources)
    if not (verify := verifier_for(engine, sources, options)):
        return decode_greedily(engine, sources, options)
    (draft,) = engine.decode(sources, n_segments, replace(options, scores=False, verified=False))  # K = 1 verifies it
    return [_verified(draft, verify)]


def _decode_nearly(engine: Engine, sources: Sources, n_segments: Ints, options: Options) -> list[Decoded]:
    """Write drafts together and verify each alone; where a trace is asked for, its words are written again."""
    sources, plain = engine.encode(sources), replace(options, top_tokens=0)
    written = engine.decode(sources, n_segments, replace(plain, scores=1 in n_segments))
    for at in np.flatnonzero(n_segments > 1).tolist():
        verify = verifier_for(engine, [sources[at]], plain)
        written[at] = _verified(written[at], verify) if verify else decode_greedily(engine, [sources[at]], plain)[0]
    if not options.top_tokens:
        return written
    forced = [{(0, place): token for place, token in enumerate(one.segments[0])} for one in written]
    traced = decode_greedily(engine, sources, replace(options, forced=forced))
    return [replace(one, top_tokens=other.top_tokens) for one, other in zip(written, traced, strict=True)]


def _verified(draft: Decoded, verify: Callable[[list[int]], Decoded]) -> Decoded:
    written = verify(assemble(draft.segments))
    return replace(written, steps=draft.steps + written.steps)


def verifier_for(engine: Engine, sources: Sources, options: Options) -> Callable[[list[int]], Decoded] | None:
    """Return what verifies the draft of a sentence; None where there are several, or the engine cannot."""
    if len(sources) > 1 or options.top_tokens:
        return None
    if options.tolerance:  # a list may lack what stands in the draft
        options = replace(options, shortlist=False)
    (limit,) = options.most_steps(sources, np.ones(1, dtype=np.int64)).tolist()
    verifier = engine.verifier(sources[0], limit, options)
    if verifier is None:
        return None
    return lambda draft: write_verified(draft, verifier, limit, options.scores, options.tolerance)


def decode_greedily(engine: Engine, sources: Sources, options: Options) -> list[Decoded]:
    """Let K = 1 write every token itself."""
    return engine.decode(sources, np.ones(len(sources), dtype=np.int64), options)
