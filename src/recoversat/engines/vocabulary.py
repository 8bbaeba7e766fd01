"""What an engine chooses from, whatever it computes with: what is never written, and which pieces a source can become.

B sentences, V vocabulary, P padded vocabulary, T directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.segmentwise import Forced
from recoversat.decoding.stepping import Bools, Floats, Ints
from recoversat.errors import UserError
from recoversat.vocab import DEL, NEVER_EMITTED

TABLE = "shortlist.npz"  # in a model folder
_SHARE = 2  # whose list is longer than one part in so many of the vocabulary may choose from all of it


def logit_biases(vocab_size: int, places: int) -> tuple[Floats, Floats]:
    """Return what is added to logits (P,) of several segments, and of one, which has nothing to delete.

    >>> [bias.tolist() for bias in logit_biases(6, 7)]
    [[-inf, -inf, 0.0, -inf, 0.0, 0.0, -inf], [-inf, -inf, 0.0, -inf, -inf, 0.0, -inf]]
    """
    bias: Floats = np.zeros(places, dtype=np.float32)
    bias[[*NEVER_EMITTED, *range(vocab_size, places)]] = -np.inf
    single = bias.copy()
    single[DEL] = -np.inf
    return bias, single


def without(bias: Floats, barred: Bools) -> Floats:
    """Return a bias (P,) that lets no barred piece (V,) be chosen.

    >>> without(np.zeros(3, dtype=np.float32), np.array([False, True])).tolist()
    [0.0, -inf, 0.0]
    """
    narrow = bias.copy()
    narrow[: len(barred)][barred] = -np.inf
    return narrow


@dataclass(frozen=True)
class Shortlist:
    """Which pieces can occur in the translation of a source."""

    # (V, n) what each source piece may become, in any order; filled up with what is in every list
    likeliest: NDArray[np.integer[Any]]
    tags: Ints  # (T,) the pieces that name a direction; none where there is one direction only
    common: Bools  # (T or 1, V) what is in every list of a direction

    def save(self, path: Path) -> None:
        """Write it as small as it gets."""
        dtype = np.uint16 if len(self.likeliest) <= 1 << 16 else np.int32
        steps = np.diff(np.sort(self.likeliest, axis=1), axis=1, prepend=0).astype(dtype)  # most need one byte
        with open(path, "wb") as stream:
            np.savez_compressed(stream, steps=steps, tags=self.tags, common=np.packbits(self.common, axis=1))

    @classmethod
    def load(cls, path: Path, vocab_size: int) -> "Shortlist":
        """Read it; refuse one that is damaged or of another vocabulary."""
        try:
            with np.load(path, allow_pickle=False) as file:
                steps, tags, common = file["steps"], file["tags"].astype(np.int64), file["common"]
            likeliest = np.cumsum(steps, axis=1, dtype=np.int32)
            common = np.unpackbits(common, axis=1, count=vocab_size).astype(np.bool_)
            fits = len(likeliest) == vocab_size and len(common) == max(1, len(tags)) and likeliest.max() < vocab_size
        except Exception as error:  # zip, zlib and numpy have errors of their own each
            raise UserError(f"{path}: damaged ({error}); run 'recoversat shortlist' again, or delete it") from None
        if not fits:
            raise UserError(f"{path}: of another model; run 'recoversat shortlist' again, or delete it")
        return cls(likeliest, tags, common)

    def members(self, sources: Sequence[Sequence[int]], forced: Sequence[Forced] | None = None) -> Bools:
        """Say which pieces each sentence may choose from, (B, V): its own pieces too, and what is forced."""
        found = np.empty((len(sources), len(self.likeliest)), dtype=np.bool_)
        for place, (row, source) in enumerate(zip(found, sources, strict=True)):
            ids = np.asarray(source, dtype=np.int64)
            row[:] = self._common_of(ids[:1])
            row[self.likeliest[ids]] = True
            row[ids] = True
            if forced and forced[place]:
                row[list(forced[place].values())] = True
        found[:, [*NEVER_EMITTED, *self.tags]] = False
        return found

    @staticmethod
    def is_too_long(members: Bools) -> NDArray[np.bool_]:
        """Say which lists (..., V) are so long that all of the vocabulary may be chosen from."""
        return np.asarray(members.sum(axis=-1) * _SHARE > members.shape[-1])

    def _common_of(self, first: Ints) -> Bools:
        """Return what is in every list of the direction that a source begins with."""
        mine = self.common[self.tags == first] if len(self.tags) else self.common
        return np.asarray((mine if len(mine) else self.common).any(axis=0))
