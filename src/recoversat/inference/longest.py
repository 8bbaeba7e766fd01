"""The longest of several K: what leaves the least out, as far as length tells."""

from collections.abc import Sequence

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.inference.best_of import Counts, IdsOf


def decode_longest(
    engine: Engine, sources: Sources, counts: Sequence[Counts], options: Options, ids_of: IdsOf
) -> list[Decoded]:
    """Write sentence b with every K of counts[b] at the same time, and keep what has the most tokens."""
    sources = engine.encode(sources)
    owners = [b for b, own in enumerate(counts) for _ in own]
    written = engine.decode([sources[b] for b in owners], np.array([k for own in counts for k in own]), options)
    each = [[one for b, one in zip(owners, written, strict=True) if b == at] for at in range(len(counts))]
    return [max(several, key=lambda one, at=at: len(ids_of(at, one))) for at, several in enumerate(each)]
