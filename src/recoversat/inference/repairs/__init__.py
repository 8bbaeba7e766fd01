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


# In the order in which they act: what leaves tokens out comes before what says something else. What a repair has
# written again passes through those before it.
REPAIRS = {
    "keep_spacing": Switch("translate columns by themselves; runs of blanks are read as one and put back"),
    "split_sentences": Switch("translate several sentences in one line by themselves"),
    "lower_capitals": Switch(
        "read text that is all in capitals or all in small letters with each word as the model knows it; what was in"
        " capitals gets them again"
    ),
    "join_overlaps": Switch("say once what the end of one segment and the beginning of the next both say"),
    "delete_tokens": Switch("leave out tokens that one more pass, with K = 1, marks by DEL; needs train.delete_tokens"),
    "cut_loops": Switch(
        "write again in two segments what one did not end; say once what a translation says four times in a row or"
        " more, and its source does not"
    ),
    "whole_characters": Switch(
        "where segments have torn a character spelt in bytes, write again as one segment, or else keep the source",
        default=True,
    ),
    "never_empty": Switch(
        "where nothing was written, begin with the likeliest word; keep the source if there is none"
    ),
    "keep_protected": Switch("keep URLs, e-mail addresses, placeholders, emoji and data such as base64 as they are"),
    "check_numbers": Switch(
        "copy text without letters; where numbers or codes came out wrong, write again as one segment, then with times"
        " in 24 hours, then with other numbers in their place, then the words around them by themselves; leave out a"
        " number that was made up"
    ),
    "localize_numbers": Switch("write 1,249.50, £9.99 and 4:30 p.m. as the target language does (English, German)"),
    "one_quote_style": Switch("write quotation marks of one style: plain ones stay, others as the target has them"),
    "keep_ending": Switch("end a translation with the mark that its source ends with: a question stays one"),
}  # fmt: skip
