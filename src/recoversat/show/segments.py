"""A translation as the paper's Table 5 prints it: numbered segments, their EOS or DEL, what is left out struck out.

Sub-words of a word are joined by "_". Without colours what is deleted stands in ~~...~~ and a forced
piece in {...}; in a colour terminal the one is grey and struck out, the other green.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass

from recoversat.inference.translation import Segment, Translation

_SPACE, _GLUE = "\u2581", "@@"

Place = tuple[int, int]  # segment and position, counted from 0


@dataclass(frozen=True)
class Marks:
    """What is written around the parts of a translation; the numbers are terminal codes or plain signs."""

    number: tuple[str, str]
    deleted: tuple[str, str]
    forced: tuple[str, str]
    ending: tuple[str, str]


PLAIN = Marks(("", ""), ("~~", "~~"), ("{", "}"), ("", ""))
# each code is ended by its own opposite, so that a forced piece can stand inside a struck-out segment
COLOUR = Marks(
    ("\x1b[36m", "\x1b[39m"), ("\x1b[2;9m", "\x1b[22;29m"), ("\x1b[32m", "\x1b[39m"), ("\x1b[2m", "\x1b[22m")
)


def marks_for(is_terminal: bool) -> Marks:
    """Choose colours for a terminal, plain signs for files and pipes; NO_COLOR and FORCE_COLOR win."""
    if os.environ.get("NO_COLOR"):
        return PLAIN
    wanted = bool(os.environ.get("FORCE_COLOR")) or (is_terminal and os.environ.get("TERM") != "dumb")
    return COLOUR if wanted else PLAIN


def segments_line(
    translation: Translation, tokenizer_kind: str, forced: Collection[Place] = (), marks: Marks = PLAIN
) -> str:
    """Show all segments of a translation on one line.

    >>> segments = [Segment("a", ["a@@", "b"], [5, 6], "eos", []), Segment("b", ["b"], [6], "del", [])]
    >>> segments_line(Translation("x", "ab", segments), "bpe", forced={(0, 1)})
    '[1] a_{b} EOS  [2] ~~b DEL~~'
    """
    return "  ".join(
        f"{_wrap(f'[{index + 1}]', marks.number)} {_segment(segment, tokenizer_kind, index, forced, marks)}"
        for index, segment in enumerate(translation.segments)
    )


def _segment(segment: Segment, kind: str, index: int, forced: Collection[Place], marks: Marks) -> str:
    words = ""
    for position, piece in enumerate(segment.pieces):
        shown, joins_left, joins_right = _shown(piece, kind)
        if joins_left:  # within its word, or a segment that begins inside one
            words = words.removesuffix(" ") + "_"
        mark = marks.forced if (index, position) in forced else ("", "")
        shown = _wrap(shown, marks.deleted) if position in segment.left_out else shown
        words += _wrap(shown, mark) + ("_" if joins_right else " ")
    if words.endswith("_"):  # the word goes on in the next segment
        words += " "
    if segment.ending == "del":
        return _wrap(f"{words}DEL", marks.deleted)
    return words + _wrap(segment.ending.upper(), marks.ending)


def _shown(piece: str, kind: str) -> tuple[str, bool, bool]:
    """Give a piece without its tokenizer's signs, and whether it continues or is continued by a word."""
    if kind == "bpe":
        return piece.removesuffix(_GLUE), False, piece.endswith(_GLUE)
    # a lone space stays visible: it is a token of its own
    return piece.removeprefix(_SPACE) or _SPACE, not piece.startswith(_SPACE), False


def _wrap(text: str, mark: tuple[str, str]) -> str:
    return f"{mark[0]}{text}{mark[1]}"
