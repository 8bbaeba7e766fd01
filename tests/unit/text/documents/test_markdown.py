"""Markdown: prose is translated, what makes its layout stays character for character."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from recoversat.text.documents import parse
from recoversat.text.documents.translating import translate_documents

SOURCE = (Path(__file__).parents[3] / "data" / "documents" / "guide.md").read_text(encoding="utf-8")


def translated(source: str, **words: str) -> str:
    def translate(texts: list[str]) -> list[str]:
        return [" ".join(words.get(word, word) for word in text.split(" ")) for text in texts]

    return translate_documents([source], translate, language="en", format="md")[0].text


def shouted(source: str) -> str:
    return translate_documents([source], lambda texts: [t.upper() for t in texts], language="en", format="md")[0].text


def test_the_same_elements_hold_the_translation() -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    before, after = parser.parse(SOURCE.split("---\n", 2)[2]), parser.parse(shouted(SOURCE).split("---\n", 2)[2])
    assert [(token.type, token.map) for token in before] == [(token.type, token.map) for token in after]
    for old, new in zip(before, after, strict=True):
        for one, other in zip(old.children or [], new.children or [], strict=True):
            assert (one.type, one.markup, one.attrs) == (other.type, other.markup, other.attrs)
            assert other.content.lower() == one.content.lower()
            assert other.content == one.content or one.type == "text"


@pytest.mark.parametrize(
    "kept",
    ["title: A guide", "`make test`", 'print("This is code and stays.")', "    So is this.", '[cat]: cat.png "Cat"',
     "[^1]: ", "   - [ ] ", "|------|:------------:|", "<!-- a comment stays -->", "  \n   ", "\\\n   ", "2026.[^1]"],
)  # fmt: skip
def test_what_is_no_prose_stays(kept: str) -> None:
    assert kept in SOURCE
    assert kept in shouted(SOURCE)


def test_marks_go_where_their_words_go() -> None:
    assert (
        translated("The **dog** [runs](u)\n", The="Hunde", dog="laufen", runs="weit") == "Hunde **laufen** [weit](u)\n"
    )


def test_a_link_named_by_its_text_keeps_its_name() -> None:
    definition = "\n\n[cat]: u\n"
    assert translated(f"A [cat] and [cat][].{definition}", cat="Katze") == (
        f"A [Katze][cat] and [Katze][cat].{definition}"
    )
    assert translated(f"A [cat] and [cat][].{definition}", A="Eine") == f"Eine [cat] and [cat][].{definition}"


def test_characters_that_mean_something_are_escaped_and_others_are_not() -> None:
    assert translated("a\n", a="5*x*y [z] <b> _c_ `d`") == "5\\*x\\*y \\[z\\] \\<b> \\_c\\_ \\`d\\`\n"
    assert translated("a * b \\* c &amp; d\n", a="A") == "A * b \\* c &amp; d\n"
    table = "|x|\n|-|\n|a|\n"
    assert translated(table, a="b|c") == "|x|\n|-|\n|b\\|c|\n"


def test_lines_are_broken_like_the_source_and_never_begin_a_list() -> None:
    assert translated("> one two\n> three four\n", two="zwei") == "> one zwei\n> three four\n"
    out = translated("one two\nthree four\n", two="-", three="1.", four="drei")
    assert [token.type for token in MarkdownIt().parse(out)] == ["paragraph_open", "inline", "paragraph_close"]


def test_html_between_paragraphs_is_html() -> None:
    assert shouted("<div>\na b\n</div>\n\nc\n") == "<div> A B </div>\n\nC\n".replace("> A B <", ">\nA B\n<")


def test_html_within_a_paragraph_is_html() -> None:
    assert shouted("one<br>two <BR /> three\n") == "ONE<br>TWO <BR /> THREE\n"
    assert shouted("|x|\n|-|\n|a<br>b c|\n") == "|X|\n|-|\n|A<br>B C|\n"
    assert shouted("H<sub>2</sub>O\n") == "H<sub>2</sub>O\n"
    assert shouted("a <code>b <i>c</i></code>, <kbd>d</kbd> <b>e</b>\n") == (
        "A <code>b <i>c</i></code>, <kbd>d</kbd> <b>E</b>\n"
    )


def test_tags_of_html_stay_around_their_words() -> None:
    def turned_around(texts: list[str]) -> list[str]:
        return [" ".join(reversed(text.split(" "))) for text in texts]

    def turn(source: str) -> str:
        return translate_documents([source], turned_around, language="en", format="md")[0].text

    assert turn("I have <u>bought a car</u> today\n") == "today <u>car a bought</u> have I\n"
    assert turn("*I <b>saw it</b> now* here\n") == "here *now <b>it saw</b> I*\n"
    assert turn("a <b>b\n") == "<b>b a\n"  # without an end it goes with its word
    assert turn("a</b> b\n") == "b a</b>\n"


@pytest.mark.parametrize("source", ["b**b*b*", "b*b*b b", "do un*do*able", "*b*b b"])
def test_a_part_of_a_word_is_not_taken_for_a_word_like_it(source: str) -> None:
    assert shouted(source).replace(" ", "") == source.upper().replace(" ", "")


PIECES = ["a", "b c", " ", "  ", "\n", "\n\n", "*", "**", "_", "`", "``", "[", "]", "(", ")", "](u)", "![", "<", ">",
          "&amp;", "&#35;", "\\", "\\*", "|", "|-|\n", "# ", "- ", "> ", "1. ", "    ", "\t", "```\n", "~~", "[a]: u\n",
          "<http://x.org>", "<i>", "</i>", "<br>", "<code>", "</code>", "\r\n", "\x00", "---\n", "é",
          "\U000f0001"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_whatever_is_written_comes_back(source: str) -> None:
    document = parse(source, "md")
    own = [block.source(0, len(block.text), slice(0, len(block.tags))) for block in document.blocks]
    assert document.put_back(own) == source


LETTERS = ["a ", "b", "*", "**", "`", "\n", "\n\n", "\\", "&amp;", "\n- ", "~~", "  \n", "&#33;", "|"]


@given(st.lists(st.sampled_from(LETTERS), max_size=25).map("".join))
def test_what_is_translated_stays_in_its_place(source: str) -> None:
    out = shouted(source)
    assert re.sub(r"\s", "", out.lower()) == re.sub(r"\s", "", source)
    assert out.count("\n") <= source.count("\n")
    assert out.count("\n\n") == source.count("\n\n")
