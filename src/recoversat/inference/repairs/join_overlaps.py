"""A segment that runs on says what its right neighbour has begun with; a reader wants it once.

The paper deletes segments that repeat their neighbour from its beginning (DEL). What this finds is the other half: a
segment that did not stop in time, "surrounded by | by leaves". Nothing is decoded again, so it costs no step.
"""

import re
from collections.abc import Sequence

import numpy as np

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair
from recoversat.text.tokenizer import Tokenizer
from recoversat.vocab import DEL, EOS


class JoinOverlaps(Repair):
    """Leave out of a segment what has just been said."""

    def mend(self, draft: Draft) -> Draft:
        if len(draft.decoded.segments) < 2:
            return draft
        shared = overlaps(draft.decoded.segments, draft.source.ids, draft.tokenizer)
        if not any(shared):
            return draft
        return draft.without([(segment, position) for segment, n in enumerate(shared) for position in range(n)])


def overlaps(segments: Sequence[Sequence[int]], source: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Count how many of each segment's first tokens repeat the end of all that stands before it.

    Only words count: two zeros may be one number. A source that says words twice itself is left alone.
    """
    written: list[int] = []
    found = []
    for segment in segments:
        tokens = [] if segment and segment[-1] == DEL else [token for token in segment if token != EOS]
        shared = 0
        if tokens and tokens[0] in written[-len(tokens) :]:
            shared = next((n for n in _shared(written, tokens) if _says_words(tokens[:n], tokenizer)), 0)
        written += tokens[shared:]
        found.append(shared)
    return [0] * len(found) if any(found) and says_twice(tokenizer.decode(source)) else found


def says_twice(text: str) -> bool:
    """Say whether up to four words stand twice in a row, whatever is between them.

    >>> says_twice("New York, New York!"), says_twice("It costs 500 or 5,000.")
    (True, False)
    """
    words = re.findall(r"\w+", text.lower())
    places = ((at, n) for n in range(1, 5) for at in range(len(words) - 2 * n + 1))
    return any(words[at : at + n] == words[at + n : at + 2 * n] for at, n in places)


def _shared(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """List the lengths, the longest first, of which the end of `left` is the beginning of `right`.

    >>> _shared([5, 1, 2, 1], [1, 2, 1, 9]), _shared([1, 2], [3])
    ([3, 1], [])
    """
    longest = min(len(left), len(right))
    return [n for n in range(longest, 0, -1) if left[-n] == right[0] and left[-n:] == right[:n]]


def _says_words(tokens: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Say whether tokens have letters and are more than a part of a word: "Mit|tag" and "tag|t" share no word."""
    is_word = len(tokens) > 1 or bool(tokenizer.word_ends(np.array([*tokens, *tokens]))[0])
    return is_word and any(map(str.isalpha, tokenizer.decode(tokens)))
