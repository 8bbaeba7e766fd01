"""The list of formats: each gives a document back as it was, but for what is translated."""

import io
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePath
from typing import Any

import polib
import pytest
from lxml import etree

from recoversat.errors import UserError
from recoversat.text.documents import FORMATS, Languages, format_of, parse
from recoversat.text.documents.translating import translate_documents

PAGE = "<p>One &amp; <b>two</b>.</p>\r\n<pre>x</pre>\tThree &lt; four\n"
TIMES = "7\r\n00:00:01,000 --> 00:00:04,000\r\n"
# of each format a document, and what is left of it when nothing is said
SAMPLES = {
    "text": (PAGE, ""),
    "html": (PAGE, "<p></p><pre>x</pre>"),
    "srt": (f"{TIMES}- One <b>two</b>\r\n- Three\r\n\r\n", f"{TIMES}- \r\n- \r\n\r\n"),
    "vtt": (f"WEBVTT\n\n{TIMES}One &amp; <00:01.500>two\r\n", f"WEBVTT\n\n{TIMES}\r\n"),
    "md": ("# One `two`\r\n\r\n    x\r\n- Three\r\n", "# \r\n\r\n    x\r\n- \r\n"),
}
REAL = sorted((Path(__file__).parents[3] / "data" / "documents").glob("*.*"))
REAL = [path for path in REAL if path.name != "README.md"]


@pytest.mark.parametrize("format", SAMPLES)
def test_a_document_is_made_of_its_blocks_and_the_rest(format: str) -> None:
    sample, empty = SAMPLES[format]
    for text in (sample, "", "\n"):
        document = parse(text, format)
        own = [block.source(0, len(block.text), slice(0, len(block.tags))) for block in document.blocks]
        assert document.put_back(own) == text
    assert parse(sample, format).put_back(["" for _ in parse(sample, format).blocks]) == empty


def same(texts: list[str]) -> list[str]:
    return texts


def test_there_is_a_real_file_of_each_format() -> None:
    assert {format_of(path) for path in REAL if path.suffix != ".txt"} == FORMATS.keys() - {"text"}


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_translator_that_changes_nothing_gives_the_same_file(path: Path) -> None:
    format = format_of(path) or "text"
    source: Any = path.read_bytes() if FORMATS[format].binary else path.read_bytes().decode()
    (out,) = translate_documents([source], same, language="en", target="de", format=format)
    if format == "html":  # a page says in which language it is
        source = source.replace('lang="en"', 'lang="de"')
    assert contents(out.text, path.suffix) == contents(source, path.suffix)
    assert parse(source, format, Languages("en", "de")).blocks


def contents(source: Any, suffix: str) -> Any:
    """Give what a file says to those who read its format; where the format allows, its very characters."""
    if suffix == ".po":  # the same, but for what had no translation
        return [str(entry) if entry.translated() or entry.fuzzy else filled(entry) for entry in polib.pofile(source)]
    if suffix in (".docx", ".odt"):
        with zipfile.ZipFile(io.BytesIO(source)) as archive:
            return [(info.filename, info.compress_type, archive.read(info)) for info in archive.infolist()]
    if suffix == ".tmx":  # the same, but for what was not there
        root = etree.fromstring(source)
        for text in list(root.iter("tuv")):
            if not text.get("{http://www.w3.org/XML/1998/namespace}lang").startswith(("en", "fr")):
                text.getparent().remove(text)
        return "".join(etree.tostring(root, method="c14n").decode().split())
    return source


def filled(entry: polib.POEntry) -> str:
    entry.msgstr = "" if entry.msgid_plural else entry.msgid
    entry.msgstr_plural = {0: entry.msgid, 1: entry.msgid_plural} if entry.msgid_plural else {}
    return str(entry)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UserError, match="format 'pdf' is not known; there are: text, html"):
        parse("", "pdf")


@pytest.mark.parametrize("name", ["a.MD", "a.markdown"])
def test_a_file_is_known_by_its_extension(name: str) -> None:
    assert format_of(PurePath(name)) == "md"
    assert format_of(PurePath("md")) is None


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.text.documents.find_spec", lambda name: None)
    for format, library in (("md", "markdown_it"), ("docx", "lxml"), ("tmx", "lxml")):
        with pytest.raises(UserError, match=rf"format {format} needs {library}: pip install 'recoversat\[files\]'"):
            parse(b"" if FORMATS[format].binary else "", format)


def test_the_extra_names_every_library_and_the_core_needs_none() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    extra = " ".join(project["optional-dependencies"]["files"]).replace("markdown-it-py", "markdown_it")
    assert {known.library for known in FORMATS.values() if known.library} <= set(re.findall(r"\w+", extra))
    code = "import sys, recoversat.cli, recoversat.translator; sys.exit('lxml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
