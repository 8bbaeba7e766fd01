"""How much an engine may do at once where memory is bounded: half of it is for logits, half for what sentences keep."""

from collections.abc import Sequence

from recoversat.engines.pairs import Pair
from recoversat.errors import UserError

FLOAT = 4  # bytes


def rows_within(max_memory: int, places: int, threads: int) -> int:
    """Return how many rows a thread may choose from the vocabulary for at once.

    >>> rows_within(2 * 3 * 10 * 256 * FLOAT, 256, 1), rows_within(1, 256, 1)
    (10, 0)
    """
    one = 3 * places * FLOAT  # logits, log-probabilities, and one more while they are computed
    return max_memory // 2 // (one * threads)


def check_drafts(pairs: Sequence[Pair], most_rows: int) -> None:
    """Refuse drafts that are too long to be read in one pass."""
    if max((len(target) + 1 for _, target in pairs), default=0) > most_rows:
        raise UserError("decode.delete_tokens: max_memory is too small to read a draft in one pass; allow more")
