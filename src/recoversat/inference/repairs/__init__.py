"""Repairs of a translation: one ordered list, one module each. The paper has none (`decode.repairs: none`).

A repair is a class derived from `recoversat.inference.repairing.Repair` in a module of this folder: `cut_loops` is the
class `CutLoops` in `cut_loops.py`. A new one costs that module and a line below, which makes it a setting of `decode`
too. The configuration reads this list, so nothing is imported here.
"""

from typing import NamedTuple


class Switch(NamedTuple):
    """What a repair does, in words, and whether a model that says nothing about it has it."""

    description: str
    default: bool = False


# In the order in which they act. What a repair has written again passes through those before it.
REPAIRS = {
    "lower_capitals": Switch("translate text that is all in capitals in small letters, and give it capitals again"),
    "join_overlaps": Switch("say once what the end of one segment and the beginning of the next both say"),
    "cut_loops": Switch("say once what a translation says four times in a row or more, and its source does not"),
    "whole_characters": Switch(
        "where segments have torn a character spelt in bytes, write again as one segment, or else keep the source",
        default=True,
    ),
    "never_empty": Switch(
        "where nothing was written, begin with the likeliest word; keep the source if there is none"
    ),
    "check_numbers": Switch(
        "copy text without letters; with --segments auto, where numbers came out wrong, write again as one segment,"
        " and if they stay wrong translate the words around them by themselves"
    ),
    "keep_ending": Switch("end a translation with the mark that its source ends with: a question stays one"),
}  # fmt: skip
