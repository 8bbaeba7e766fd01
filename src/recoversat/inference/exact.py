"""Exact: the words that K = 1 writes, drafted by K segments and verified (`recoversat.decoding.verify`).

It takes fewer calls of the model than K = 1 has tokens, and more work in each. A sentence alone waits for calls, a
batch for work: of several sentences, and of one so short that it is not divided, K = 1 writes every token itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.decoding.verify import write_verified
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.segments import assemble


def decode_exactly(engine: Engine, sources: Sources, n_segments: Ints, options: Options) -> list[Decoded]:
    """Write what K = 1 writes; sentence b may be drafted in n_segments[b] segments."""
    if len(sources) > 1 or n_segments[0] == 1:
        return decode_greedily(engine, sources, options)
    sources = engine.encode(sources)
    if not (verify := _begin(engine, sources, options)):
        return decode_greedily(engine, sources, options)
    (draft,) = engine.decode(sources, n_segments, replace(options, scores=False, top_tokens=0))
    written = verify(assemble(draft.segments))
    return [replace(written, steps=draft.steps + written.steps)]


def verify_drafts(engine: Engine, sources: Sources, drafts: Sequence[list[int]], options: Options) -> list[Decoded]:
    """Write what K = 1 writes, from drafts that are there already."""
    verify = _begin(engine, sources, options)
    return [verify(drafts[0])] if verify else decode_greedily(engine, sources, options)


def _begin(engine: Engine, sources: Sources, options: Options) -> Callable[[list[int]], Decoded] | None:
    """Return what verifies the draft of a sentence; None where there are several, or the engine cannot."""
    if len(sources) > 1 or options.top_tokens:  # what else was likely is known only step by step
        return None
    (limit,) = options.most_steps(sources, np.ones(1, dtype=np.int64)).tolist()
    verifier = engine.verifier(sources[0], limit, options)
    return None if verifier is None else lambda draft: write_verified(draft, verifier, limit, options.scores)


def decode_greedily(engine: Engine, sources: Sources, options: Options) -> list[Decoded]:
    """Let K = 1 write every token itself."""
    return engine.decode(sources, np.ones(len(sources), dtype=np.int64), options)
