"""Which words of a translation render a part of its source, found by asking the model for likelihoods.

How likely is each word of the translation given the part alone, and how likely given the sentence without it? Words
that the first explains better come from the part: "spazieren" from "went for a walk". Where there is none (a part alone
may say too little), those come from it that the whole sentence explains far better than the sentence without it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq

import numpy as np
from numpy.typing import NDArray

from recoversat.text.tokenizer import Tokenizer

Range = tuple[int, int]
Floats = NDArray[np.float64]

_WORD = re.compile(r"\S+")
_QUOTES = re.compile("[„“”»«‚‘’›‹']")


@dataclass(frozen=True)
class Part:
    """A sentence, a part of it, the sentence without the part, and the translation of the whole."""

    whole: str
    inside: str
    outside: str
    translation: str


def locate_parts(
    parts: Sequence[Part], likelihoods: Callable[[list[tuple[str, str]]], list[Floats]], tokenizer: Tokenizer
) -> list[Range | None]:
    """Find the place of each part; `likelihoods` scores the tokens of translations, given (source, translation)."""
    views = [[(text, part.translation) for text in (part.whole, part.inside, part.outside)] for part in parts]
    pairs = list(dict.fromkeys(pair for of_part in views for pair in of_part))  # a sentence may have several parts
    known = dict(zip(pairs, likelihoods(pairs), strict=True))
    ids = tokenizer.encode_targets([part.translation for part in parts])
    return [
        place_of(part, tokens, [known[pair] for pair in of_part], tokenizer)
        for part, tokens, of_part in zip(parts, ids, views, strict=True)
    ]


def place_of(part: Part, ids: Sequence[int], given: Sequence[Floats], tokenizer: Tokenizer) -> Range | None:
    """Find the characters of the translation that render the part; None where in doubt.

    Its tokens are `ids`; `given` holds their log-probabilities, given the whole, the part, and what is around it.
    """
    whole, inside, outside = given
    words, owners = words_of(part.translation, ids, tokenizer)
    if not words:
        return None
    says = [any(map(str.isalnum, piece)) for piece in tokenizer.pieces(ids)]  # punctuation says nothing

    def of_words(values: Floats) -> Floats:
        told = np.where(says, np.nan_to_num(values, posinf=0, neginf=0), 0.0)
        return np.asarray(np.bincount(owners, told), dtype=np.float64)

    found = best_run(of_words(inside - outside).tolist())
    if found is None:
        losses = of_words(whole - outside)
        found = best_run((losses - losses.max() / 2).tolist()) if losses.max() > 1 else None
    return _trimmed(part, words[found[0]][0], words[found[1] - 1][1]) if found else None


def words_of(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[list[Range], NDArray[np.int64]]:
    """Return where the words of a text are, and to which of them each token belongs; none where they do not match."""
    words = [match.span() for match in _WORD.finditer(text)]
    ends = tokenizer.word_ends(np.array(ids, dtype=np.int64))
    return (words if int(ends.sum()) == len(words) else []), np.cumsum(ends) - ends


def _trimmed(part: Part, start: int, end: int) -> Range:
    """Leave out punctuation at the ends, but for what the part has there too."""
    (before, after), (wanted_before, wanted_after) = _margins(part.translation[start:end]), _margins(part.inside)
    start += len(before) - _n_common(before[::-1], wanted_before[::-1])
    return start, end - len(after) + _n_common(after, wanted_after)


def _n_common(one: str, other: str) -> int:
    """Count the characters with which both begin."""
    return sum(takewhile(bool, map(eq, one, other)))


def _margins(text: str) -> tuple[str, str]:
    """Return what stands before the first and after the last letter or digit; a quotation mark is one like any other.

    >>> _margins("(no!)"), _margins("«yes»"), _margins("?")
    (('(', '!)'), ('"', '"'), ('', ''))
    """
    text = _QUOTES.sub('"', text)
    spots = [index for index, character in enumerate(text) if character.isalnum()]
    return (text[: spots[0]], text[spots[-1] + 1 :]) if spots else ("", "")


def best_run(values: Sequence[float]) -> Range | None:
    """Find the neighbours with the largest sum; None where no sum is positive.

    >>> best_run([-1.0, 0.0, 2.0, -0.5, 3.0, 0.0, -4.0]), best_run([-1.0, 0.0])
    ((2, 5), None)
    """
    best, found, start, total = 0.0, None, 0, 0.0
    for index, value in enumerate(values):
        if total <= 0:
            start, total = index, 0.0
        total += value
        if total > best:
            best, found = total, (start, index + 1)
    return found
