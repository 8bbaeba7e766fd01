"""Forced translation: words, given as text, that must stand at a place of a segment (the paper's Table 5).

A place is written SEGMENT:POSITION, both counted from 1 as `translate --show segments` counts them:
"6:1=the" makes segment 6 begin with "the". A word of several pieces takes as many positions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recoversat.decoding.segmentwise import Forced
from recoversat.errors import UserError
from recoversat.text.tokenizer import Tokenizer
from recoversat.vocab import UNK

_SPEC = re.compile(r"\s*(\d+)(?::(\d+))?\s*=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ForcedWords:
    """Words and the place of their first piece, counted from 1."""

    segment: int
    position: int
    text: str


def parse_force(spec: str) -> ForcedWords:
    """Read SEGMENT:POSITION=WORDS; without a position the words begin the segment.

    >>> parse_force("6:2=the house"), parse_force("6=the")
    (ForcedWords(segment=6, position=2, text='the house'), ForcedWords(segment=6, position=1, text='the'))
    """
    match = _SPEC.fullmatch(spec)
    if not match:
        raise UserError(f"force {spec!r}: write SEGMENT:POSITION=WORDS, counted from 1, e.g. '6:1=the'")
    segment, position, text = int(match[1]), int(match[2] or 1), match[3].strip()
    if segment < 1 or position < 1:
        raise UserError(f"force {spec!r}: segments and positions are counted from 1")
    if not text:
        raise UserError(f"force {spec!r}: there is no word after '='")
    return ForcedWords(segment, position, text)


def force_words(specs: Sequence[str], tokenizer: Tokenizer, n_segments: int) -> Forced:
    """Turn specs into what decoding understands: (segment, position), counted from 0, -> id."""
    forced: dict[tuple[int, int], int] = {}
    for spec in specs:
        words = parse_force(spec)
        if words.segment > n_segments:
            raise UserError(
                f"force {spec!r}: there is no segment {words.segment}, the translation has {n_segments};"
                " choose another segment or more segments"
            )
        for offset, token in enumerate(_ids_of(words.text, spec, tokenizer)):
            place = (words.segment - 1, words.position - 1 + offset)
            if forced.setdefault(place, token) != token:
                raise UserError(f"force {spec!r}: {_place(place)} is already forced to be another word")
    return forced


def force_lines(specs: Sequence[str], tokenizer: Tokenizer, counts: Sequence[int]) -> list[Forced]:
    """Return what is forced in each line of so many segments: the same in all, and nothing where there are none."""
    last = max(parse_force(spec).segment for spec in specs)
    for number, count in enumerate(counts, 1):
        if 0 < count < last:
            raise UserError(
                f"line {number}: what is forced names segment {last}, but this line is written in {count};"
                f" choose another segment, or choose segments {last} so that every line has as many"
            )
    forced = force_words(specs, tokenizer, last)
    return [forced if count else {} for count in counts]


def check_forced(forced: Forced, segments: Sequence[Sequence[int]], where: str) -> None:
    """Say so when a forced token was never written because its segment had ended before."""
    for place, token in sorted(forced.items()):
        segment, position = place
        written = segments[segment]
        if position >= len(written) or written[position] != token:
            raise UserError(
                f"{where}: nothing can be forced at {_place(place)}, the segment ends at position {len(written)};"
                f" use a position from 1 to {len(written)}, or force the words before it too"
            )


def _ids_of(text: str, spec: str, tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.encode_targets([text])[0]
    if UNK in ids or not ids:
        unknown = [word for word in text.split() if UNK in tokenizer.encode_targets([word])[0]]
        raise UserError(
            f"force {spec!r}: the tokenizer has no piece for {' '.join(unknown) or text!r};"
            " write it in pieces it knows (such as 'cham@@ bers'), or choose another word"
        )
    return ids


def _place(place: tuple[int, int]) -> str:
    return f"segment {place[0] + 1}, position {place[1] + 1}"
