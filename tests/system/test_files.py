"""People's files through the command line, Python and the built-in model."""

import gzip
import json
import lzma
import shutil
from pathlib import Path

import docx
import polib
import pytest
from typer.testing import CliRunner, Result

from recoversat.cli import app
from recoversat.errors import UserError
from recoversat.text.documents import parse
from recoversat.translator import Translator

DATA = Path(__file__).parents[1] / "data" / "documents"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(source="en", target="de", device="cpu", intra_threads=1)


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    command = ["translate", "--to", "de", "--threads", "1", *map(str, arguments)]
    return CliRunner().invoke(app, command, input=stdin)


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(DATA / name, folder))


def test_word_is_written_beside_its_source_and_never_over_a_file(tmp_path: Path) -> None:
    source = copied("report.docx", tmp_path)
    done = run(source)
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"writing {tmp_path / 'report.de.docx'}" in done.stderr
    document = docx.Document(str(tmp_path / "report.de.docx"))
    assert document.paragraphs[0].text == "Das alte Haus"
    bold = [run.text for run in document.paragraphs[1].runs if run.bold]
    assert bold == ["kleine Hund"]
    assert document.paragraphs[1].hyperlinks[0].text.endswith("Haus")
    assert source.read_bytes() == (DATA / "report.docx").read_bytes()
    again = run(source)
    assert again.exit_code != 0
    assert "exists already; name another file: --out FILE" in str(again.exception or again.stderr)


@pytest.mark.parametrize("name", ["guide.md", "page.html", "film.srt", "film.vtt", "messages.po"])
def test_text_goes_to_standard_output_by_its_extension(name: str, translator: Translator, tmp_path: Path) -> None:
    shown = run(DATA / name)
    assert shown.exit_code == 0, shown.output
    written = tmp_path / name
    assert run(DATA / name, "--out", written).exit_code == 0
    assert written.read_bytes() == shown.stdout_bytes
    format = {"guide.md": "md", "page.html": "html"}.get(name, Path(name).suffix[1:])
    assert run("--format", format, stdin=(DATA / name).read_bytes()).stdout_bytes == shown.stdout_bytes
    translator.translate_file(DATA / name, tmp_path / f"python.{format}")
    assert (tmp_path / f"python.{format}").read_bytes() == shown.stdout_bytes
    assert shown.stdout_bytes != (DATA / name).read_bytes()


def test_messages_are_german_and_their_placeholders_stay(tmp_path: Path) -> None:
    messages = polib.pofile(run(DATA / "messages.po").stdout)
    assert all(entry.translated() or entry.fuzzy or entry.obsolete for entry in messages)
    (full,) = [entry.msgstr for entry in messages if "disk is full" in entry.msgid]
    assert "%s" in full
    assert "voll" in full


def test_bold_in_markdown_is_german_and_bold(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("The **old house** is very big. Run `make test` now.\n")
    out = run(tmp_path / "a.md").stdout
    assert "**alte Haus**" in out
    assert "`make test`" in out


def test_what_is_no_text_needs_one_file_and_a_place(tmp_path: Path) -> None:
    for more, message in (
        ([DATA / "report.docx", DATA / "report.docx"], "several files cannot be written as one"),
        (["--format", "odt"], "name the file to write: --out FILE"),
        ([DATA / "guide.md", DATA / "page.html"], "files of several formats (html, md)"),
        ([DATA / "report.docx", "--show", "segments"], "--format docx goes without --show"),
        ([DATA / "guide.md", "--workers", "2", "--out", tmp_path], "--workers, --cluster and --shard write lines"),
    ):
        refused = run(*more, stdin=b"")
        assert refused.exit_code != 0
        assert message in str(refused.exception or refused.output)
    damaged = tmp_path / "damaged.docx"
    damaged.write_bytes((DATA / "report.docx").read_bytes()[:3000])
    assert f"{damaged}: this is no docx file" in str(run(damaged, "--out", tmp_path / "out.docx").exception)
    assert not (tmp_path / "out.docx").exists()


def test_lines_of_json_and_lines_by_extension(tmp_path: Path, translator: Translator) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 7, "text": "The old house"}\n')
    record = json.loads(run(tmp_path / "a.jsonl").stdout)
    assert (record["id"], record["translation"]) == (7, "Das alte Haus")
    for name in ("a.txt", "a.en", "a.md"):
        (tmp_path / name).write_text("The old house\nThe old house\n")
        more = ["--format", "lines"] if name == "a.md" else []
        assert run(tmp_path / name, *more).stdout == "Das alte Haus\nDas alte Haus\n"
    translator.translate_file(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["translation"] == "Das alte Haus"


def test_a_compressed_file_is_what_it_unpacks_to(tmp_path: Path, translator: Translator) -> None:
    for name in ("page.html", "memory.tmx"):
        plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
        assert run(DATA / name, "--out", plain).exit_code == 0
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / packed.name).write_bytes(gzip.compress((DATA / name).read_bytes()))
        assert run(tmp_path / "in" / packed.name, "--out", packed).exit_code == 0
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert run(tmp_path / "in" / "memory.tmx.gz").exit_code == 0
    assert (tmp_path / "in" / "memory.de.tmx").read_bytes() == (tmp_path / "memory.tmx").read_bytes()
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(b'{"id": 7, "text": "The old house"}\n'))
    assert json.loads(run(tmp_path / "a.jsonl.xz").stdout)["translation"] == "Das alte Haus"
    translator.translate_file(tmp_path / "a.jsonl.xz", tmp_path / "b.jsonl.gz")
    assert json.loads(gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()))["translation"] == "Das alte Haus"


def test_a_mark_of_byte_order_stays(tmp_path: Path) -> None:
    (tmp_path / "a.vtt").write_bytes(b"\xef\xbb\xbfWEBVTT\n\n00:01.000 --> 00:02.000\nThe old house\n")
    assert run(tmp_path / "a.vtt").stdout_bytes.startswith(b"\xef\xbb\xbfWEBVTT\n\n00:01.000 --> 00:02.000\nDas alte")


def test_python_answers_bytes_for_bytes(translator: Translator) -> None:
    (done,) = translator.translate_documents([(DATA / "report.odt").read_bytes()], format="odt")
    (again,) = translator.translate_documents([done.text], format="odt", translate=lambda texts: texts)
    assert isinstance(done.text, bytes)
    assert parse(again.text, "odt").blocks[0].text == parse(done.text, "odt").blocks[0].text == "Das alte Haus"
    with pytest.raises(UserError, match="no odt file"):
        translator.translate_documents([b"text"], format="odt")
    with pytest.raises(UserError, match="read from bytes"):
        translator.translate_documents(["text"], format="odt")
    with pytest.raises(UserError, match="read from text"):
        translator.translate_documents([b"text"], format="md")
