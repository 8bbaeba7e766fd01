"""Word, OpenDocument, translation memories: text is translated, structure stays, and nobody does harm with a file."""

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import pytest
from lxml import etree

from recoversat.errors import UserError
from recoversat.text.documents import Languages, parse
from recoversat.text.documents.translating import translate_documents
from recoversat.text.documents.xml_nodes import add_text
from tests.growth import LINEAR, slowdown

DATA = Path(__file__).parents[3] / "data" / "documents"
WORD = (DATA / "report.docx").read_bytes()
OPEN = (DATA / "report.odt").read_bytes()
MEMORY = (DATA / "memory.tmx").read_bytes()
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SAID = ["The old house", "The small dog sleeps in the old house. Nobody knows why, R&D < 3.", "The note at the foot.",
        "First line\nsecond line\nwith a tab", "Door", "A short report", "Written by hand"]  # fmt: skip


def translated(source: bytes, format: str, translate: Callable[[str], str] = str.upper) -> bytes:
    def all_of(texts: list[str]) -> list[str]:
        return [translate(text) for text in texts]

    return translate_documents([source], all_of, language="en", target="de", format=format)[0].text


def replaced(**words: str) -> Callable[[str], str]:
    return lambda text: " ".join(words.get(word, word) for word in text.split(" "))


def member(source: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        return archive.read(name)


def with_member(source: bytes, name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info, content if info.filename == name else old.read(info))
    return out.getvalue()


def word_with(paragraph: str) -> bytes:
    document = f"<w:document {W}><w:body><w:p>{paragraph}</w:p></w:body></w:document>"
    return with_member(WORD, "word/document.xml", document.encode())


def word_body(source: bytes) -> str:
    body = member(source, "word/document.xml").decode()
    return body.split("<w:p>")[1].split("</w:p>")[0]


@pytest.mark.parametrize(("source", "format"), [(WORD, "docx"), (OPEN, "odt")])
def test_text_tables_headers_and_notes_are_read_without_tags(source: bytes, format: str) -> None:
    said = {block.text.strip() for block in parse(source, format).blocks}
    assert said >= set(SAID)


def test_comments_and_what_was_deleted_stay_in_open_documents() -> None:
    body = member(OPEN, "content.xml").decode()
    deleted = "<text:tracked-changes><text:deletion><text:p>slowly</text:p></text:deletion></text:tracked-changes>"
    comment = "<text:p>Run<office:annotation><text:p>a comment</text:p></office:annotation> now</text:p>"
    body = body.replace("<office:text>", f"<office:text>{deleted}{comment}", 1)
    out = member(translated(with_member(OPEN, "content.xml", body.encode()), "odt"), "content.xml").decode()
    assert deleted in out
    assert "<text:p>RUN<office:annotation><text:p>a comment</text:p></office:annotation> NOW</text:p>" in out


@pytest.mark.parametrize(("source", "format"), [(WORD, "docx"), (OPEN, "odt")])
def test_all_of_it_is_translated_and_nothing_else_changes(source: bytes, format: str) -> None:
    out = translated(source, format)
    said = [block.text for block in parse(source, format).blocks]
    assert [block.text for block in parse(out, format).blocks] == [text.upper() for text in said]
    with zipfile.ZipFile(io.BytesIO(source)) as before, zipfile.ZipFile(io.BytesIO(out)) as after:
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            assert (old.filename, old.compress_type, old.date_time) == (new.filename, new.compress_type, new.date_time)
            if old.filename not in {"content.xml", "styles.xml"} and not old.filename.startswith("word/"):
                assert before.read(old) == after.read(new)


def test_word_finds_formats_links_and_fields_where_their_words_went() -> None:
    document = docx.Document(io.BytesIO(translated(WORD, "docx", replaced(small="kleine", dog="Hund"))))
    paragraph = document.paragraphs[1]
    assert [(run.text, run.bold) for run in paragraph.runs][:4] == [
        ("The ", None), ("kleine Hund", True), ("", None), (" sleeps in the ", None),
    ]  # fmt: skip
    (link,) = paragraph.hyperlinks
    assert (link.text, link.address, link.runs[0].underline) == ("old house", "https://example.org/house", True)
    assert document.tables[0].cell(1, 1).text == "It opens and  closes."
    shouted = docx.Document(io.BytesIO(translated(WORD, "docx")))
    assert shouted.tables[0].cell(0, 0).text == "NAME"
    assert shouted.sections[0].header.paragraphs[0].text == "A SHORT REPORT"
    body = member(translated(WORD, "docx"), "word/document.xml").decode()
    for kept in (
        " PAGE </w:instrText>",
        "<w:delText>slowly</w:delText>",
        '<w:footnoteReference w:id="2"/>',
        ">7</w:t>",
    ):
        assert body.count(kept) == 1
    assert body.index("<w:ins ") < body.index(">QUICKLY<") < body.index("</w:ins>")
    assert body.index(' HYPERLINK "') < body.index(">THE LONG BOOK<") < body.index(" TODAY.<")


def test_paragraphs_that_stay_the_same_are_not_touched() -> None:
    out = translated(WORD, "docx", replaced(Door="Tür"))
    before, after = member(WORD, "word/document.xml"), member(out, "word/document.xml")
    assert after == before.replace(b"<w:t>Door</w:t>", '<w:t xml:space="preserve">Tür</w:t>'.encode())
    assert member(out, "word/header1.xml") == member(WORD, "word/header1.xml")


def test_runs_that_look_the_same_are_one_text() -> None:
    look = '<w:rPr><w:b/><w:lang w:val="en-GB"/></w:rPr>'
    split = word_with(f"<w:r><w:rPr><w:b/></w:rPr><w:t>He</w:t></w:r><w:proofErr/><w:r>{look}<w:t>llo</w:t></w:r>")
    assert parse(split, "docx").blocks[0].text == "Hello"
    assert word_body(translated(split, "docx")).endswith(
        '<w:rPr><w:b/></w:rPr><w:t xml:space="preserve">HELLO</w:t></w:r>'
    )


def test_a_field_that_ends_elsewhere_and_nested_links_come_through() -> None:
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
    run = "<w:r><w:t>text</w:t></w:r>"
    for paragraph in (f"{begin}{run}", f"{run}{end}", f"<w:hyperlink>{begin}{run}</w:hyperlink>{end}{run}",
                      f"<w:ins><w:hyperlink>{run}</w:hyperlink></w:ins>{run}"):  # fmt: skip
        source = word_with(paragraph)
        assert word_body(translated(source, "docx")) == word_body(source).replace(
            "<w:t>text", '<w:t xml:space="preserve">TEXT'
        )


def test_what_a_field_shows_stays_unless_it_is_a_link() -> None:
    def field(code: str) -> bytes:
        marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
        said = f"<w:r><w:instrText>{code}</w:instrText></w:r>{marks[1]}<w:r><w:t>seven</w:t></w:r>"
        return word_with(f"<w:r><w:t>text</w:t></w:r>{marks[0]}{said}{marks[2]}")

    assert ">seven<" in word_body(translated(field(" REF here "), "docx"))
    assert ">SEVEN<" in word_body(translated(field(' HYPERLINK "u" '), "docx"))


def test_spaces_of_open_documents_are_seen() -> None:
    out = member(translated(OPEN, "odt", replaced(Door="  a   b")), "content.xml").decode()
    assert ">a<" not in out
    assert 'a <text:s text:c="2"/>b</text:p>' in out
    assert 'and <text:s text:c="2"/>closes.' in out


def test_styles_that_nobody_sees_do_not_cut_words() -> None:
    assert parse(OPEN, "odt").blocks[1].tags == [
        (4, "<x0>"), (13, "</x0>"), (13, "<!--1-->"), (28, "<x2>"), (37, "</x2>"),
    ]  # fmt: skip


def test_a_memory_gets_what_it_lacks() -> None:
    out = translated(MEMORY, "tmx").decode()
    dog = '<bpt i="1">&lt;b&gt;</bpt>SMALL DOG<ept i="1">&lt;/b&gt;</ept>'
    added = f"""      <tuv xml:lang="de"><seg>THE {dog} SLEEPS<ph x="2">&lt;br/&gt;</ph> IN THE HOUSE.</seg></tuv>\n"""
    filled = '<seg>NOBODY <hi type="bold">KNOWS</hi> WHY.</seg></tuv>\n    </tu>'
    assert out == MEMORY.decode().replace('      <tuv xml:lang="fr">', f'{added}      <tuv xml:lang="fr">').replace(
        "<seg></seg></tuv>\n    </tu>", filled
    )
    assert translated(out.encode(), "tmx", str.lower) == out.encode()
    utf16 = MEMORY.decode().replace("UTF-8", "UTF-16").encode("utf-16")
    assert "THE HOUSE." in translated(utf16, "tmx").decode("utf-16")


def test_a_memory_without_the_language_is_refused() -> None:
    with pytest.raises(UserError, match=r"no text in 'it' is in it; there are: de-DE, en-US, fr"):
        parse(MEMORY, "tmx", Languages("it", "de"))


LAUGHS = '<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
TMX = '<tmx><body><tu><tuv xml:lang="en"><seg>&a;</seg></tuv></tu></body></tmx>'


@pytest.mark.parametrize("trick", [LAUGHS, OUTSIDE])
def test_entities_are_refused(trick: str) -> None:
    document = f'<?xml version="1.0"?>{trick}<w:document {W}><w:p><w:r><w:t>&a;</w:t></w:r></w:p></w:document>'
    for encoding in ("utf-8", "utf-16"):
        with pytest.raises(UserError, match="declares XML entities: refused"):
            parse(f"{trick}{TMX}".encode(encoding), "tmx", Languages("en", "de"))
    with pytest.raises(UserError, match="declares XML entities: refused"):
        parse(with_member(WORD, "word/document.xml", document.encode()), "docx")
    with pytest.raises(UserError, match="declares XML entities: refused"):
        parse(with_member(OPEN, "content.xml", document.encode()), "odt")


def test_bombs_are_refused_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = with_member(WORD, "word/document.xml", b" " * 30_000_000)
    assert len(bomb) < 100_000

    def never(*_: Any, **__: Any) -> bytes:
        raise AssertionError("unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "read", never)
    with pytest.raises(UserError, match="unpacks to 300"):
        parse(bomb, "docx")


@pytest.mark.parametrize("format", ["docx", "odt", "tmx"])
def test_what_is_damaged_is_refused(format: str) -> None:
    whole = {"docx": WORD, "odt": OPEN, "tmx": MEMORY}[format]
    other = {"docx": OPEN, "odt": WORD, "tmx": b"<a/>"}[format]
    middle = bytearray(whole)
    middle[len(whole) // 3 : len(whole) // 2] = b"x" * (len(whole) // 2 - len(whole) // 3)
    for source in (b"", b"Two dogs run.", whole[: len(whole) // 2], bytes(middle), other):
        with pytest.raises(UserError, match=f"no {format} file|not an? {format} file|damaged {format} file"):
            parse(source, format, Languages("en", "de"))


def test_a_part_that_is_no_xml_is_named() -> None:
    with pytest.raises(UserError, match="damaged docx file"):
        parse(with_member(WORD, "word/document.xml", b"<w:document>"), "docx")
    strict = b'<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"/>'
    with pytest.raises(UserError, match="save it as a plain Word document"):
        parse(with_member(WORD, "word/document.xml", strict), "docx")


RUN = "<w:r><w:t>ab cd </w:t></w:r>"
NASTY = {
    "docx": ['<w:r><w:t xml:space="preserve">   </w:t></w:r><w:bookmarkStart/>', f"<w:hyperlink>{RUN}</w:hyperlink>",
             f'<w:r><w:fldChar w:fldCharType="begin"/></w:r>{RUN}',
             f"{RUN}<w:r><w:rPr><w:b/></w:rPr><w:t>e.</w:t></w:r>"],
    "odt": ['<t:s t:c="1000"/>', "   <t:bookmark/>", "<t:span>a b.</t:span>", "a <t:date>x</t:date>"],
}  # fmt: skip


@pytest.mark.parametrize(("format", "nasty"), [(format, one) for format, all_ in NASTY.items() for one in all_])
def test_time_grows_with_the_length_of_a_paragraph(format: str, nasty: str) -> None:
    def translate(times: int) -> None:
        opened = f'<o xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><t:p>{nasty * times}</t:p></o>'
        source = word_with(nasty * times) if format == "docx" else with_member(OPEN, "content.xml", opened.encode())
        translated(source, format)

    assert slowdown(translate, 1000) < LINEAR


class Uncounted(etree.ElementBase):
    """A node whose children may not be counted: lxml looks at each of them, so that many additions take a square."""

    def __len__(self) -> int:
        raise AssertionError("children were counted")


def test_text_is_added_without_counting_what_is_there() -> None:
    node = Uncounted()
    for text in ("a", "b"):
        add_text(node, text)
    etree.SubElement(node, "x")
    for text in ("c", "d"):
        add_text(node, text)
    assert etree.tostring(node) == b"<Uncounted>ab<x/>cd</Uncounted>"


def archived(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_part_that_is_larger_than_it_says_is_not_unpacked(method: int) -> None:
    size = 50_000_000
    honest = archived({"[Content_Types].xml": b"<Types/>", "word/document.xml": b" " * size}, method)
    liar = honest.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert liar.count((1000).to_bytes(4, "little")) == 2  # in both of its headers
    tracemalloc.start()
    with pytest.raises(UserError, match=r"Bad CRC-32|in a way that documents never are: refused"):
        parse(liar, "docx")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < size / 10


def test_two_parts_of_one_name_are_refused() -> None:
    out = io.BytesIO(OPEN)
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("content.xml", b"<a/>")
    with pytest.raises(UserError, match="two parts of the same name"):
        parse(out.getvalue(), "odt")


def test_a_part_is_read_once_however_often_it_is_listed() -> None:
    types = member(WORD, "[Content_Types].xml").decode()
    (listed,) = [f"<Override {one}" for one in types.split("<Override ") if "document.main+xml" in one]
    many = with_member(WORD, "[Content_Types].xml", types.replace(listed, 3000 * listed).encode())
    assert [block.text for block in parse(many, "docx").blocks] == [block.text for block in parse(WORD, "docx").blocks]


FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
LINK = FIELD.format("begin") + "<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>" + FIELD.format("separate")


@pytest.mark.parametrize(("before", "after"), [(LINK, FIELD.format("end")), ("<w:hyperlink>", "</w:hyperlink>")])
def test_links_in_links_have_an_end(before: str, after: str) -> None:
    assert b"AB CD" in member(translated(word_with(10 * before + RUN + 10 * after), "docx"), "word/document.xml")
    for times in (100, 3000) if "fld" in before else (100,):
        with pytest.raises(UserError, match="too deep: refused"):
            parse(word_with(times * before + RUN + times * after), "docx")


def test_too_many_tags_are_refused_before_they_are_read() -> None:
    with pytest.raises(UserError, match="1000001 tags in one part, at most 1000000: divide it"):
        parse(b"<a>" + 1_000_000 * b"<", "tmx", Languages("en", "de"))


def test_empty_paragraphs_cost_next_to_nothing() -> None:
    assert parse(word_with(RUN + "</w:p>" + 1000 * "<w:p/>" + "<w:p>"), "docx").blocks[0].text == "ab cd"
    assert len(parse(word_with(RUN + "</w:p>" + 1000 * "<w:p/>" + "<w:p>"), "docx").blocks) < 10


def test_a_format_of_an_odd_namespace_is_a_format() -> None:
    odd = '<w:r><w:rPr><x:b xmlns:x="relative"/></w:rPr><w:t>house</w:t></w:r>'  # has no canonical form
    assert b"HOUSE" in member(translated(word_with(RUN + odd), "docx"), "word/document.xml")
