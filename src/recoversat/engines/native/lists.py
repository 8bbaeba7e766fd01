"""Shortlists in the native library, which makes and cuts the list of a sentence itself.

T directions, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.stepping import Bools
from recoversat.engines.native.library import address_of, check, give_back, library
from recoversat.engines.vocabulary import Shortlist
from recoversat.errors import UserError
from recoversat.vocab import NEVER_EMITTED


class NativeLists:
    """Which pieces the translation of a source can hold: `Shortlist.members`, where they are few enough to be used."""

    def __init__(self, table: Shortlist) -> None:
        vocabulary, each = table.likeliest.shape
        common = np.stack(
            [*(table.common[table.tags == tag].any(axis=0) for tag in table.tags), table.common.any(axis=0)]
        )
        allowed = np.ones(vocabulary, dtype=np.bool_)
        allowed[[*NEVER_EMITTED, *table.tags]] = False
        sizes = np.array([vocabulary, each, len(table.tags)], dtype=np.int32)
        self._arrays: list[NDArray[Any]] = [
            np.ascontiguousarray(table.likeliest, dtype=np.int32), table.tags.astype(np.int32),
            _bits(common), _bits(allowed[None]),
        ]  # fmt: skip
        self._vocabulary, self._library = vocabulary, library()
        self.address: int = self._library.rs_lists(address_of(sizes), *[address_of(array) for array in self._arrays])
        if not self.address:
            raise MemoryError
        give_back(self, self._library.rs_lists_free, self.address)

    def pieces(self, source: NDArray[np.int32], forced: Sequence[int] = ()) -> NDArray[np.int32] | None:
        """Return the list of a source, with pieces that are forced; None: all of the vocabulary may be chosen from."""
        if forced and not 0 <= min(forced) <= max(forced) < self._vocabulary:
            raise ValueError(f"ids from 0 to {self._vocabulary - 1} can be forced")
        found, also = np.empty(self._vocabulary // 2, dtype=np.int32), np.array(forced, dtype=np.int32)
        n = self._library.rs_pieces(
            self.address, address_of(source), len(source), address_of(also), len(also), address_of(found)
        )
        return found[:n] if check(n) else None


def lists_of(path: Path, vocabulary: int) -> NativeLists:
    """Read a table; refuse pieces that are none, which the library would take at their word."""
    table = Shortlist.load(path, vocabulary)
    for ids in (table.likeliest, table.tags):
        if ids.size and not 0 <= ids.min() <= ids.max() < vocabulary:
            raise UserError(f"{path}: damaged; run 'recoversat shortlist' again, or delete it")
    return NativeLists(table)


def _bits(sets: Bools) -> NDArray[np.uint64]:
    """Return sets of pieces (n, V) as bits, a row in whole words."""
    padded = np.pad(sets, ((0, 0), (0, -sets.shape[1] % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
