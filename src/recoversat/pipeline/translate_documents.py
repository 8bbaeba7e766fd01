"""Translate files in the formats people have them in, whole."""

import codecs
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import AnyStr

from recoversat.errors import UserError
from recoversat.files.storage import atomic_stream, decoded, faults_named, open_bytes, unpacked_name, write_faults_named
from recoversat.pipeline.direction import Directions, turned
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import Job
from recoversat.text.documents import FORMATS, Languages, parse
from recoversat.translator import Translator

_SAMPLE = 512  # blocks that tell the language of a document


def translate_documents(
    translator: Translator, job: Job, asked: TranslateOptions, directions: Directions | None = None
) -> None:
    """Translate files (or standard input) whole, one after the other; spacing, placeholders, tags and layout are kept.

    Text goes to the job's file or to standard output. What is no text goes to its file, or beside the source:
    report.de.docx. Where `directions` are open, each document says by its words which one it takes.
    """
    format, known = asked.format, FORMATS[asked.format]
    if known.binary and len(job.files) > 1:
        raise UserError(f"--format {format}: several files cannot be written as one; name a folder: --out FOLDER/")
    out, written = job.out, []

    def translated(source: AnyStr, name: str) -> AnyStr:
        nonlocal translator, out
        if directions:
            translator = turned(translator, directions.choose(_words(source, format, translator), name))
        if known.binary and out is None:
            out = _beside(job.files, translator.target, format)
        try:
            (done,) = translator.translate_documents(
                [source], format=format, segments=asked.segments, batch_size=asked.batch_size, beam=asked.beam
            )
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        for sentence in done.split:
            print(f"note: a sentence was too long and translated in parts: {sentence[:60]}...", file=sys.stderr)
        return done.text

    sources = [(str(path), _read(path)) for path in job.files] or [("standard input", sys.stdin.buffer.read())]
    for name, source in sources:
        if known.binary:
            written.append(translated(source, name))
        else:
            mark = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
            written.append(mark + translated(decoded(source, name), name).encode())
    _write(written, out)


def _words(document: AnyStr, format: str, translator: Translator) -> str:
    """Give the text of a document's beginning, without its marks."""
    with suppress(UserError):  # a damaged one is refused where it is translated
        parsed = parse(document, format, Languages(translator.source, translator.target))
        return "\n".join(block.text for block in islice(parsed.blocks, _SAMPLE))
    return ""


def _read(path: Path) -> bytes:
    with faults_named(path), open_bytes(path) as stream:
        return stream.read()


def _beside(files: Sequence[Path], target: str, format: str) -> Path:
    """Name the translation of a file that is no text: it does not go to a terminal."""
    if not files:
        raise UserError(f"--format {format}: name the file to write: --out FILE")
    name = unpacked_name(files[0])
    out = name.with_suffix(f".{target}{name.suffix}")
    if out.exists():
        raise UserError(f"{out} exists already; name another file: --out FILE")
    print(f"writing {out}", file=sys.stderr)
    return out


def _write(documents: Sequence[bytes], out: Path | None) -> None:
    """Write documents one after the other, each of text on lines of its own."""
    ended = [text if text.endswith(b"\n") else text + b"\n" for text in documents[:-1]]
    whole = b"".join([*ended, *documents[-1:]])
    if out is None:
        with write_faults_named(Path("standard output")):
            sys.stdout.flush()
            sys.stdout.buffer.write(whole)
            sys.stdout.buffer.flush()
        return
    with write_faults_named(out), atomic_stream(out) as stream:
        stream.write(whole)
