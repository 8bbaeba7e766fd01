"""Input files as parts: lines of text or JSON, plain or compressed, and rows of Parquet; the same kind comes out."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Protocol

from recoversat.errors import UserError
from recoversat.files.records import Record
from recoversat.files.storage import atomic_stream, decoded_line, faults_named, open_bytes

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Part:
    """Consecutive lines (or rows) of a file, known by their content."""

    first: int  # number of its first line, from 0
    count: int
    offset: int  # of its first line, in bytes of the text uncompressed; in rows of a Parquet file
    digest: str


class Input(Protocol):
    """A file of sentences."""

    def parts(self, size: int) -> Iterator[Part]:
        """Cut the file into parts of `size` sentences, in bounded memory."""

    def texts(self, part: Part) -> list[str]:
        """Read the sentences of a part; damage is named by file and line."""

    def write(self, out: Path, translated: Iterable[tuple[Part, list[str]]]) -> int:
        """Write a file of the same kind with the translations, in bounded memory, whole or not at all.

        Returns how many records were in error.
        """


def open_input(path: Path, *, jsonl: bool) -> Input:
    """Open a file as what its name says: Parquet, or lines of text (`jsonl`: of JSON objects)."""
    if path.suffix == ".parquet":
        from recoversat.cluster.parquet import ParquetInput

        return ParquetInput(path)
    return JsonInput(path) if jsonl else TextInput(path)


class TextInput:
    """One sentence a line; plain, .gz, .xz or .zst."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None
        self._at = 0

    def parts(self, size: int) -> Iterator[Part]:
        first = offset = 0
        with faults_named(self._path), open_bytes(self._path) as stream:
            while lines := list(islice(stream, size)):
                yield Part(first, len(lines), offset, digest_of(lines))
                first, offset = first + len(lines), offset + sum(map(len, lines))

    def texts(self, part: Part) -> list[str]:
        return [decoded_line(raw, str(self._path), part.first + i) for i, raw in enumerate(self._lines(part))]

    def write(self, out: Path, translated: Iterable[tuple[Part, list[str]]]) -> int:
        with atomic_stream(out) as stream:
            for _, translations in translated:
                stream.write("".join(f"{line}\n" for line in translations).encode())
        return 0

    def _lines(self, part: Part) -> list[bytes]:
        """Read lines; the stream stays open, so that a compressed file is read through only once."""
        with faults_named(self._path):
            stream, self._stream = self._stream_at(part.offset), None
            lines = list(islice(stream, part.count))
        self._stream, self._at = stream, part.offset + sum(map(len, lines))
        if len(lines) != part.count or digest_of(lines) != part.digest:
            raise UserError(f"{self._path}: changed since the run was planned; start the command again to plan anew")
        return lines

    def _stream_at(self, offset: int) -> IO[bytes]:
        if self._stream is None or offset < self._at:
            if self._stream is not None:
                self._stream.close()
            self._stream, self._at = open_bytes(self._path), 0
        if self._stream.seekable():
            self._stream.seek(offset)
        else:
            while self._at < offset and (block := self._stream.read(min(_BLOCK, offset - self._at))):
                self._at += len(block)
        return self._stream


class JsonInput(TextInput):
    """One object a line; all its fields are kept and "translation" is added, or "error" to one that has no text."""

    def texts(self, part: Part) -> list[str]:
        return [Record.parse(raw).text for raw in self._lines(part)]

    def write(self, out: Path, translated: Iterable[tuple[Part, list[str]]]) -> int:
        errors = 0
        with atomic_stream(out) as stream:
            for part, translations in translated:
                pairs = zip(self._lines(part), translations, strict=True)
                for number, (raw, translation) in enumerate(pairs, part.first + 1):
                    record = Record.parse(raw)
                    if record.error:
                        errors += 1
                        record.tell_error(f"{self._path}, line {number}", errors)
                    stream.write(f"{record.answered(translation)}\n".encode())
        return errors


def digest_of(lines: Sequence[bytes]) -> str:
    """Hash lines, each with its end."""
    return hashlib.blake2b(b"".join(lines), digest_size=16).hexdigest()
