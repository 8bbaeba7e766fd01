"""Shortlists in the extension module, which makes and cuts the shortlist of a sentence itself.

T directions, V vocabulary.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import Bools
from recoversat.engines.native._engine import Shortlist
from recoversat.engines.vocabulary import Shortlist as Table
from recoversat.errors import UserError
from recoversat.vocab import NEVER_EMITTED


def shortlist_of(table: Table) -> Shortlist:
    """Convert a table: its `members` are what the result finds, where they are few enough to be used."""
    common = np.stack([*(table.common[table.tags == tag].any(axis=0) for tag in table.tags), table.common.any(axis=0)])
    allowed = np.ones(len(table.likeliest), dtype=np.bool_)
    allowed[[*NEVER_EMITTED, *table.tags]] = False
    likeliest = np.ascontiguousarray(table.likeliest, dtype=np.int32)
    return Shortlist(likeliest, table.tags.astype(np.int32), _bits(common), _bits(allowed[None])[0])


def load_shortlist(path: Path, vocabulary: int) -> Shortlist:
    """Read a table."""
    table = Table.load(path, vocabulary)
    try:
        return shortlist_of(table)
    except (ValueError, IndexError):
        raise UserError(f"{path}: damaged; run 'recoversat shortlist' again, or delete it") from None


def _bits(sets: Bools) -> NDArray[np.uint64]:
    """Return sets of pieces (n, V) as bits, a row in whole words."""
    padded = np.pad(sets, ((0, 0), (0, -sets.shape[1] % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
