"""HTML in blocks: nothing is lost, only text is text, tags find their place."""

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.text.documents.block import Block, places_of, tags_in
from recoversat.text.documents.elements import Element, element_tree
from recoversat.text.documents.html import blocks_of_html
from tests.growth import LINEAR, slowdown


def source_of(blocks: list[str | Block]) -> str:
    return "".join(
        block if isinstance(block, str) else block.source(0, len(block.text), slice(None)) for block in blocks
    )


def texts_of(html: str) -> list[str]:
    return [block.text for block in blocks_of_html(html) if isinstance(block, Block)]


SLOT = "\U000f0000"


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("", []),
        ("Hello", ["Hello"]),
        ("<p>One</p><p>Two</p>", ["One", "Two"]),
        ("<p>Hello <b>big</b> world.</p>", ["Hello big world."]),
        ("One<br>Two<br/>Three", ["One", "Two", "Three"]),
        ("<!DOCTYPE html><a title=\"a > b\" href='c'>x</a>", ["x"]),
        ("<script>if (a<b) '<p>no</p>'</script>yes", ["yes"]),
        ("<STYLE>p > a {}</STYLE >yes", ["yes"]),
        ("<pre>no <b>no</b></pre>yes", ["yes"]),
        ("<textarea><p>no</textarea>yes", ["yes"]),
        ("Use <code>f(<i>x</i>)</code> here", [f"Use {SLOT} here"]),
        ("<div translate='no'>no<div>no</div>no</div>yes", ["yes"]),
        ("<div translate=NO>no</div>yes", ["yes"]),
        ("a <span class='x notranslate'>no</span> b", [f"a {SLOT} b"]),
        ("<div data-x='translate=no'>yes</div>", ["yes"]),
        ("<span translate='no'/>yes", ["yes"]),
        ("a <!-- no <b> --> b", ["a  b"]),
        ("a <!--> b", ["a  b"]),
        ("<![CDATA[ no <b> ]]>yes", ["yes"]),
        ("<?php no ?>yes", ["yes"]),
        ("AT&amp;T &lt;b&gt; &eacute; &#8364; &#x20ac; &nbsp;x", ["AT&T <b> é € € \xa0x"]),
        ("a &unknown; b & c &copy 1", ["a &unknown; b & c © 1"]),
        ("one\r\n  two\tthree", ["one    two three"]),
        ("<custom-tag>x</custom-tag>", ["x"]),
        # broken markup
        ("1 < 2 and 3 > 2 <3", ["1 < 2 and 3 > 2 <3"]),
        ("<p>open <b>tags", ["open tags"]),
        ("</p>closed</b>", ["closed"]),
        ("half a <tag", ["half a <tag"]),
        ("<p title=it's>Don't</p>", ["Don't"]),
        ('<a href="x>y</a>', ["y"]),
        ("<pre>never closed", []),
        ("<script>never closed", []),
        ("a <!-- never closed", ["a "]),
        ("x&#1;y", ["xy"]),
        (f"own {SLOT} character", ["own  character"]),
    ],
)
def test_text_is_found_and_source_is_kept(html: str, texts: list[str]) -> None:
    assert texts_of(html) == texts
    assert source_of(list(blocks_of_html(html))) == html


MARKUP = [
    "<p>", "</p>", "<b>", "</b>", "<i class='x'>", "</i>", "<br/>", "<img alt='a > b'>", "<code>", "</code>",
    "<pre>", "</pre>", "<script>", "</script>", "<!-- c -->", "<!--", "-->", "&amp;", "&nbsp;", "&", "&#1;",
    "<", ">", "\"", "'", "=", "<span translate='no'>", "</span>", "<span ", "word", "Two words.", " ",
    "\r\n", SLOT, "{x}",
    "<![CDATA[", "/",
]  # fmt: skip
fragments = st.lists(st.sampled_from(MARKUP)).map("".join)


@given(fragments | st.text())
def test_any_input_comes_back(html: str) -> None:
    assert source_of(list(blocks_of_html(html))) == html


def squeezed(source: str) -> str:
    return " ".join(unescape(source).split())


@given(fragments)
def test_the_runs_and_marks_of_a_sentence_and_the_gaps_around_it_are_the_block(source: str) -> None:
    for block in blocks_of_html(source):
        if isinstance(block, Block) and len(block.text) > 2:
            end = len(block.text)
            tags = block.tags_of(1, end - 1)
            texts, marks = block.runs(1, end - 1, tags)
            assert all(texts[1:-1])
            inside = "".join(block.written(text) + mark for text, mark in zip(texts, [*marks, ""], strict=True))
            before = block.source(0, 1, slice(0, tags.start))
            after = block.source(end - 1, end, slice(tags.stop, None))
            assert squeezed(before + inside + after) == squeezed(block.source(0, end, slice(None)))


@pytest.mark.parametrize(
    ("html", "tags"),
    [
        ("<p>one <b>two</b></p>", ["<b>", "</b>"]),
        ("<b>one</b> two", ["<b>", "</b>"]),
        ("<a><b>one</b> two</a>", ["<b>", "</b>"]),
        ("<a><b>one</b></a> two", ["<a>", "<b>", "</b>", "</a>"]),
        ("one <a><b>two</b></a>", ["<a>", "<b>", "</b>", "</a>"]),
        ("<b>one two</b>", []),
        ("<i>one</b> two", ["</b>"]),
        ("one <b>two</i>", ["<b>"]),
        ("<wbr>one <wbr>two<wbr>", ["<wbr>"]),
    ],
)
def test_a_sentence_has_the_tags_inside_it_and_their_partners_at_its_ends(html: str, tags: list[str]) -> None:
    (block,) = [block for block in blocks_of_html(html) if isinstance(block, Block)]
    assert [tag for _, tag in block.tags[block.tags_of(0, len(block.text))]] == tags


def shape(element: Element) -> list[object]:
    inner = [part if isinstance(part, str) else shape(part) for part in element.content]
    return [element.opening, *inner, element.closing] if element.opening or element.closing else inner


@pytest.mark.parametrize(
    ("runs", "marks", "expected"),
    [
        (["one"], [], ["one"]),
        (["one ", "two", " three"], ["<b>", "</b>"], ["one ", ["<b>", "two", "</b>"], " three"]),
        (["", "a", " ", "b", ""], ["<A HREF='x'>", "</a >", "<i>", "</i>"],
         [["<A HREF='x'>", "a", "</a >"], " ", ["<i>", "b", "</i>"]]),
        (["", "a", ""], ["<a><b>", "</b></a>"], [["<a>", ["<b>", "a", "</b>"], "</a>"]]),
        (["", "a ", "b", ""], ["<a>", "<b>", "</b></a>"], [["<a>", "a ", ["<b>", "b", "</b>"], "</a>"]]),
        (["", "a", "b", ""], ["<b>", "</b><i>", "</i>"], [["<b>", "a", "</b>"], ["<i>", "b", "</i>"]]),
        (["", "a", ""], ["<a><b>", "</a></b>"], None),
        (["", "a", ""], ["<b>", "</i>"], None),
        (["", "a", ""], ["</b>", "<b>"], None),
        (["", "a", ""], ["<img>", "<img>"], [["<img>", "a", "<img>"]]),
        (["one ", " two ", " three"], ["<img>", "<!-- -->"],
         ["one ", ["<img> ", "two", ""], " ", ["<!-- --> ", "three", ""]]),
        (["one ", "."], ["<img>"], [["", "one", " <img>"], "."]),
        (["one", " two"], ["<img><br>"], [["", "one", "<img><br>"], " two"]),
        (["a one-two ", ", three"], ["<i></i>"], ["a ", ["", "one-two", " <i></i>"], ", three"]),
        (["one ", " ", "two", "!"], ["<img>", "<b>", "</b>"], ["one ", ["<img> <b>", "two", "</b>"], "!"]),
        (["one ", "two", " three"], ["<b>", "</b><img>"], ["one ", ["<b>", "two", "</b><img>"], " three"]),
        (["one ", "two ", " three"], ["<b>", "<img></b>"], ["one ", ["<b>", ["", "two", " <img>"], "</b>"], " three"]),
        (["one ", " three"], ["<a><img></a>"], ["one ", ["<a><img></a> ", "three", ""]]),
        (["extra", "ordinary"], ["<wbr>"], [["", "extraordinary", "<wbr>"]]),
        (["an ex", "tra", "ordinary man"], ["<wbr>", "<wbr>"], ["an ", ["", "extraordinary", "<wbr><wbr>"], " man"]),
        (["(", ")"], ["<img>"], None),
        (["", "a", ""], ["<b><img>", "</i>"], None),
        (["a", "b"], ["<b>"], None),
        (["a", "b"], ["</b>"], None),
        (["a", "b"], ["<b></b>"], [["", "ab", "<b></b>"]]),
        (["a", "b"], ["<b>" * 40 + "</b>" * 40], None),
        (["", "a", ""], [SLOT, SLOT], None),
        (["", "a", ""], ["<b>", f"</b>{SLOT}"], None),
    ],
)  # fmt: skip
def test_tags_make_elements(runs: list[str], marks: list[str], expected: list[object] | None) -> None:
    tree = element_tree(runs, marks)
    assert (shape(tree) if tree else None) == expected


@pytest.mark.parametrize(
    ("translation", "content", "expected"),
    [
        ("Hallo, große Welt.", "große", [(7, 12)]),
        ("Hallo, große Welt.", " große ", [(7, 12)]),
        ("große", "große", [(0, 5)]),
        ("Hallo, große Welt.", "groß", []),  # not a whole word
        ("große große", "große", [(0, 5), (6, 11)]),
        ("Hallo", "", []),
        ("Hallo", "Welt", []),
    ],
)
def test_content_stands_where_it_is_whole_words(
    translation: str, content: str, expected: list[tuple[int, int]]
) -> None:
    assert places_of(content, translation) == expected


@pytest.mark.parametrize(
    "unit",
    ["<a ", '<a "', "<!--", "<a b='", "<![CDATA[", "<b>x</b>", "<span translate=no>", "<code>x</code>",
     "&amp", "<a =", "<", "</script ", "<?", "x. <b>"],
)  # fmt: skip
def test_hostile_markup_takes_no_longer_than_its_length(unit: str) -> None:
    def work(size: int) -> None:
        for html in (unit * (size // len(unit)), "<script>" + unit * (size // len(unit))):
            assert source_of(list(blocks_of_html(html))) == html

    assert slowdown(work, 12_500) < LINEAR


def test_an_odd_tag_name_is_a_tag_as_in_a_browser() -> None:
    assert tags_in("x <a<> y <b<i>") == ["<a<>", "<b<i>"]
