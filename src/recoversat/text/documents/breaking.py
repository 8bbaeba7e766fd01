"""Lines that were joined to be translated are broken again where the source was, measured in characters.

A translation that changes nothing is broken in the same places.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

Spaces = Sequence[tuple[int, int]]
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")  # of a text, with what ends it


def cut_like(text: str, spaces: Spaces, lengths: Sequence[int], seen: int) -> list[str]:
    """Cut a text, of which `seen` characters are seen, in the proportions of lines of these lengths.

    >>> cut_like("a big house", spaces_of("a big house"), [5, 5], 11)
    ['a big', 'house']
    """
    *ends, total = accumulate(lengths, lambda end, length: end + 1 + length)  # a break counts as a space
    return cut_at(text, spaces, [end * seen / total for end in ends])


def spaces_of(text: str, hidden: re.Pattern[str] | None = None) -> list[tuple[int, int]]:
    """List the spaces between words: their places, and how many characters a reader sees before them.

    >>> spaces_of('<font color="red">Go</font> on', re.compile("<[^>]*>"))
    [(27, 2)]
    """
    unseen = {at for match in hidden.finditer(text) for at in range(*match.span())} if hidden else set()
    visible = [at for at in range(len(text)) if at not in unseen]
    return [(at, before) for before, at in enumerate(visible) if text[at] == " "]


def cut_at(text: str, spaces: Spaces, wanted: Sequence[float]) -> list[str]:
    """Cut a text at the spaces nearest to the wanted places, which grow.

    >>> cut_at("a big house", spaces_of("a big house"), [6.0])
    ['a big', 'house']
    """
    lines, start, first = [], 0, 0  # `first` of the spaces that are left
    for place in wanted:
        behind = bisect_left(spaces, place, lo=first, key=itemgetter(1))
        near = spaces[max(behind - 1, first) : behind + 1]
        if not near:
            break
        at, seen = min(near, key=lambda space: abs(space[1] - place))
        lines.append(text[start:at])
        start = at + 1
        first = bisect_left(spaces, seen + 1, lo=first, key=itemgetter(1))
    return [*lines, text[start:]]
