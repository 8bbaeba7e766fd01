"""Draft and verify: the words of K = 1, in fewer steps than it has tokens.

K segments have drafted a translation. One causal pass over it says at every place what K = 1 would write there: all up
to the first difference stands, and K = 1's own token after it. Then the rest of the draft is found again, where the end
of what is written stands in it, and verified on. What comes out is what greedy decoding with K = 1 writes.

With a tolerance a drafted token also stands where K = 1 finds it that much less likely than its own: fewer passes.
"""

from collections.abc import Sequence
from typing import Protocol

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.stopping import between_steps
from recoversat.vocab import BOS, EOS

AHEAD = 12  # tokens verified at once: on a CPU a row costs a seventh of a pass, and few drafts are right to their end
ALL = 1 << 30  # of those that are tolerated most stand to the end


class Verifier(Protocol):
    """A sentence that K = 1 is writing; remembers its source and the rows so far."""

    @property
    def ahead(self) -> int:
        """How many tokens of a draft are best verified at once where none is tolerated."""

    @property
    def most(self) -> int:
        """How many can be."""

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        """Append a row for each token (N,); return what K = 1 writes after each of them, and how likely that is."""

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        """Do as `verify` with scores; also return how likely each token but the first is after those before it."""

    def forget(self, rows: int) -> None:
        """Keep only so many rows, the first ones."""


def write_verified(
    draft: Sequence[int], verifier: Verifier, limit: int, scores: bool, tolerance: float = 0.0
) -> Decoded:
    """Return what K = 1 writes in at most `limit` steps, or lets stand; `steps` counts passes."""
    written: list[int] = []
    log_probs: list[float] = []
    accepted: list[bool] = []
    ended, ahead = [*draft, EOS], verifier.most if tolerance else verifier.ahead
    passes, place = 0, 0
    while len(written) < limit and EOS not in written[-1:]:
        between_steps()
        last = written[-1] if written else BOS
        proposed = list(draft[place : place + min(ahead, limit - len(written) - 1)])
        if tolerance:
            choices, likely, given = verifier.compare([last, *proposed])
            stands = likely[:-1] - given <= tolerance
        else:
            choices, likely = verifier.verify([last, *proposed], scores)
            given, stands = likely[:-1], choices[:-1] == proposed
        passes += 1
        tokens = choices.tolist()
        agreed = len(proposed) if stands.all() else int(stands.argmin())
        written += [*proposed[:agreed], tokens[agreed]]
        accepted += [True] * agreed + [ended[place + agreed : place + agreed + 1] == [tokens[agreed]]]
        log_probs += [*given[:agreed].tolist(), float(likely[agreed])] if scores or tolerance else []
        verifier.forget(len(written))
        place = find_again(written, draft, place + agreed)
    return Decoded([written], [log_probs], passes, draft=list(draft), accepted=accepted)


def find_again(written: Sequence[int], draft: Sequence[int], place: int) -> int:
    """Return where the draft goes on after what is written: after the longest end of it that the draft has too.

    Of several such places the one nearest to `place`, where they differed; without any, the token there is replaced.

    >>> find_again([5, 6, 9, 7], [5, 6, 7, 8], 2), find_again([5, 7], [5, 6, 7, 8], 1), find_again([5, 9], [5, 6, 7], 1)
    (3, 3, 2)
    """
    ends = [at for at in range(1, len(draft) + 1) if draft[at - 1] == written[-1]]
    return max(ends, key=lambda at: (_shared_end(written, draft[:at]), -abs(at - place - 1)), default=place + 1)


def _shared_end(left: Sequence[int], right: Sequence[int]) -> int:
    """Count the tokens that both end with.

    >>> _shared_end([1, 2, 3], [9, 2, 3]), _shared_end([1], [2])
    (2, 0)
    """
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))
