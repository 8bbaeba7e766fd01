"""Hard-wrapped paragraphs."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.text.documents.translating import translate_documents
from recoversat.text.wrapping import Wrapped, is_wrapped, paragraphs
from tests.growth import LINEAR, slowdown

PROSE = (
    "The house at the end of the road was old, and nobody had lived in it for many years. Children said that it was"
    " haunted. One evening a stranger came to the village and asked the innkeeper who owned it, but he would not say."
)


@pytest.mark.parametrize("width", [50, 60, 72, 80])
@pytest.mark.parametrize("indent", ["", "  "])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_wrapped_paragraph_is_one_text_and_wrapped_again(width: int, indent: str, newline: str) -> None:
    lines = textwrap.wrap(PROSE, width, initial_indent=indent, subsequent_indent=indent)
    page = newline.join(["# Title", "", *lines, "", "- one", "- two", ""])
    seen: list[str] = []

    def translate(texts: list[str]) -> list[str]:
        seen.extend(texts)
        return [text.upper().replace("HOUSE", "VERY SMALL HOUSE") for text in texts]

    (result,) = translate_documents([page], translate, language="en")
    assert "Children said that it was haunted." in seen
    expected = PROSE.upper().replace("HOUSE", "VERY SMALL HOUSE")
    wrapped = textwrap.wrap(expected, max(map(len, lines)), initial_indent=indent, subsequent_indent=indent)
    assert result.text == newline.join(["# TITLE", "", *wrapped, "", "- ONE", "- TWO", ""])
    assert translate_documents([page], list, language="en")[0].text == page


@pytest.mark.parametrize("other", ["\u2028", "\x0b", "\x85"])
def test_a_line_with_a_break_of_another_kind_was_not_wrapped(other: str) -> None:
    text = f"5{other}'\nm{'a' * 39}"
    assert not is_wrapped(text.split("\n"))
    (result,) = translate_documents([text], lambda texts: [one.upper() for one in texts], language="en")
    assert result.text == text.upper()


@pytest.mark.parametrize("placeholder", ["{% if x %}", "{n, plural, one {# dog# dogs}}"])
def test_no_line_ends_inside_a_placeholder(placeholder: str) -> None:
    for length in range(1, 44):
        text = f"{'w' * length} {placeholder} and some more words"
        lines = Wrapped(["x" * 45, "y"], "\n").wrapped(text).split("\n")
        assert any(placeholder in line for line in lines)
        assert " ".join(lines) == text


VERSE = """Tiger, tiger, burning bright
In the forests of the night,
What immortal hand or eye
Could frame thy fearful symmetry?"""
LIST = """- bring the red book that lies on the table
- and the blue one, if you can find it there"""
NUMBERED = """1. bring the red book that lies on the table in the
2. and the blue one, if you can find it there today"""
CODE = """    for line in the_lines_of_this_long_file:
    print(line, end_of_line, and_so_on_for_ever)"""
ADDRESS = """Max Mustermann
Musterstraße 5
12345 Musterstadt in der Mitte von Deutschland"""
SENTENCES = """This is one sentence on one line of the text.
this is another sentence on the next line here."""
SHORT = "one\ntwo"
TABLE = "the name of the thing   and the price of it all\nthe next one of all     costs far more than this"


@pytest.mark.parametrize("text", [VERSE, LIST, NUMBERED, CODE, ADDRESS, SENTENCES, SHORT, TABLE, "one line", ""])
def test_what_breaks_its_lines_on_purpose_stays(text: str) -> None:
    assert not is_wrapped(text.split("\n"))


@given(st.lists(st.sampled_from(["a", "word", "Another.", "\n", "\n\n", "\r\n", "- ", "  ", "longer-than-that", "\t"])))
def test_the_parts_are_the_text(pieces: list[str]) -> None:
    text = " ".join(pieces)
    parts = list(paragraphs(text))
    assert "".join(part.source if isinstance(part, Wrapped) else part for part in parts) == text


def test_many_short_paragraphs_take_linear_time() -> None:
    def read(times: int) -> None:
        text = times * "a\n\n"
        assert "".join(part for part in paragraphs(text) if isinstance(part, str)) == text

    assert slowdown(read, 100_000) < LINEAR
