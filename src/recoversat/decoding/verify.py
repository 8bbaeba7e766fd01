"""Draft and verify: the words of K = 1, in fewer steps than it has tokens.

K segments have drafted a translation. One causal pass over it says at every place what K = 1 would write there: all up
to the first difference stands, and K = 1's own token after it. Then the rest of the draft is found again, where the end
of what is written stands in it, and verified on. What comes out is what greedy decoding with K = 1 writes.
What a pass says of the draft beyond the first difference is a hint: it mends the draft before it is verified on.

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
_SURE = 3  # drafted tokens that K = 1 would write itself, after which its word for another one is taken
_NEAR = 3  # tokens that a draft may have too many before one that K = 1 wants now


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
    hoped, own = [*draft], [True] * (len(draft) + 1)  # what is proposed, and what of it and its end was drafted
    ahead = verifier.most if tolerance else verifier.ahead
    passes, place = 0, 0
    while len(written) < limit and EOS not in written[-1:]:
        between_steps()
        last = written[-1] if written else BOS
        proposed = hoped[place : place + min(ahead, limit - len(written) - 1)]
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
        here = place + agreed
        accepted += [*own[place:here], [*hoped, EOS][here : here + 1] == [tokens[agreed]] and own[here]]
        log_probs += [*given[:agreed].tolist(), float(likely[agreed])] if scores or tolerance else []
        verifier.forget(len(written))
        if not tolerance:
            take_hints(hoped, own, place, tokens, agreed)
        place = find_again(written, hoped, here)
    return Decoded([written], [log_probs], passes, draft=list(draft), accepted=accepted)


def take_hints(hoped: list[int], own: list[bool], place: int, tokens: Sequence[int], agreed: int) -> None:
    """Mend a draft from `place` on: there K = 1 would write `tokens`, and is sure of the first that are `agreed` on.

    Where it would write the tokens before one, but not that one, its own is put there, or what lies before it left out.

    >>> hoped, own = [5, 6, 7, 8, 9, 10, 11], [True] * 8
    >>> take_hints(hoped, own, 0, [4, 6, 7, 8, 20, 10, 11, 2], 0)
    >>> hoped, own
    ([5, 6, 7, 8, 20, 10, 11], [True, True, True, True, False, True, True, True])
    """
    proposed = hoped[place : place + len(tokens) - 1]
    for at in range(len(proposed) - 1, agreed + _SURE, -1):
        wanted, before, here = tokens[at], slice(at - _SURE, at), place + at
        if wanted not in (proposed[at], EOS) and list(tokens[before]) == proposed[before]:
            drafted = wanted in hoped[here : here + _NEAR + 1]
            end = hoped.index(wanted, here) + 1 if drafted else here + 1
            hoped[here:end], own[here:end] = [wanted], [drafted and own[end - 1]]


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
