"""Documents as people have them: one module a format.

A format is a module of this folder with a function `parse(source) -> Document` (see `block.py`): the blocks of text to
be translated, and how to put their translations back. A new one costs that module and a line below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, AnyStr, NamedTuple

from recoversat.errors import UserError
from recoversat.files.storage import unpacked_name

if TYPE_CHECKING:
    from recoversat.text.documents.block import Document


class Languages(NamedTuple):
    """Codes of the languages a document is translated from and into."""

    source: str
    target: str


@dataclass(frozen=True)
class Format:
    """What is known of a format without its module; one that is `bilingual` is parsed for two languages."""

    module: str
    words: str  # what it does
    extensions: tuple[str, ...] = ()
    binary: bool = False
    bilingual: bool = False
    library: str = ""  # of the extra "files"

    @property
    def is_available(self) -> bool:
        """Tell whether all that it needs is installed."""
        return not self.library or find_spec(self.library) is not None


# What a user calls a format. Files of it are known by their extensions; those of plain text are files of lines.
FORMATS = {
    "text": Format("plain", "split into sentences"),
    "html": Format("html", "tags kept", (".html", ".htm", ".xhtml")),
    "srt": Format("srt", "subtitles, numbers and times kept", (".srt",)),
    "vtt": Format("vtt", "subtitles of the web", (".vtt",)),
    "docx": Format("docx", "Word", (".docx",), binary=True, library="lxml"),
    "odt": Format("odt", "OpenDocument text", (".odt",), binary=True, library="lxml"),
    "tmx": Format("tmx", "translation memories filled in", (".tmx",), binary=True, bilingual=True, library="lxml"),
    "po": Format("po", "untranslated messages filled in", (".po", ".pot"), bilingual=True),
    "md": Format("markdown", "Markdown, code and links kept", (".md", ".markdown"), library="markdown_it"),
}

LINES = "lines"  # what a file is that is in none of them
_JSON_LINES = (".jsonl", ".ndjson")


def choose_format(wanted: str, files: Sequence[Path], jsonl: bool) -> tuple[str, bool]:
    """Tell which format files are in, and whether lines are JSON: as wanted, or else by their extensions.

    >>> choose_format("", [Path("report.docx")], False), choose_format("", [Path("corpus.en.gz")], False)
    (('docx', False), ('lines', False))
    """
    if wanted and wanted != LINES and wanted not in FORMATS:
        raise UserError(f"--format {wanted}: there are lines, {', '.join(FORMATS)}")
    if wanted or jsonl or not files:
        return wanted or LINES, jsonl
    kinds = {path.suffix.lower(): format_of(path) for path in map(unpacked_name, files)}
    found = {format or ("jsonl" if suffix in _JSON_LINES else LINES) for suffix, format in kinds.items()}
    if len(found) > 1:
        raise UserError(f"files of several formats ({', '.join(sorted(found))}): translate them apart, or add --format")
    (format,) = found
    return (LINES, True) if format == "jsonl" else (format, False)


def format_of(path: PurePath) -> str | None:
    """Tell the format of a file by its extension; None where none is known.

    >>> format_of(PurePath("page.HTML")), format_of(PurePath("corpus.en"))
    ('html', None)
    """
    return next((name for name, known in FORMATS.items() if path.suffix.lower() in known.extensions), None)


def parse(source: AnyStr, format: str, languages: Languages = Languages("", "")) -> "Document[AnyStr]":
    """Read a document in one of the formats."""
    if format not in FORMATS:
        raise UserError(f"format {format!r} is not known; there are: {', '.join(FORMATS)}")
    known = FORMATS[format]
    if not isinstance(source, bytes if known.binary else str):
        raise UserError(f"format {format!r} is read from {'bytes' if known.binary else 'text (str)'}")
    if not known.is_available:
        raise UserError(f"format {format} needs {known.library}: pip install 'recoversat[files]'")
    module = import_module(f"{__name__}.{known.module}")
    document: Document[AnyStr] = module.parse(source, languages) if known.bilingual else module.parse(source)
    return document
