"""Files over HTTP: an upload is parsed here, its blocks wait for workers as texts do, the result is held a while."""

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from fastapi import Request

from recoversat.errors import UserError
from recoversat.files.storage import decoded
from recoversat.serve.http.answering import file_key, wait_for
from recoversat.serve.http.refusals import RefusalError, too_busy, too_much
from recoversat.serve.service import Service
from recoversat.serve.work.translating import BatchKey, Outcome, Task
from recoversat.text.documents import FORMATS, Languages, format_of, parse
from recoversat.text.documents.block import Block, Document

_HELD_FOR = 600.0  # seconds
_MOST_HELD = 200_000_000  # bytes of all files together
_MOST_OF_ONE = 10  # files of one client
_UPLOADS, _UPLOADS_OF_ONE = 16, 2  # that are read or translated at a time
_PARSED_AT_A_TIME = 2
_GROUP = 1000  # characters of the blocks that are translated in one go, unless one has more
_LONGEST_NAME = 100
_PLAIN = ".txt"
_DENSE = ("text", "md")  # of these nearly all is to be translated
_LONGEST_CHARACTER = 4  # bytes
_MOST_TAGS = 3  # of a page, for each character that may be translated


@dataclass(frozen=True)
class HeldFile:
    """A translated file that waits to be fetched."""

    content: bytes
    filename: str
    client: str
    until: float  # on the monotonic clock


class FileDesk:
    """Translated files in memory, by names nobody can guess, and how many are being worked on."""

    def __init__(self) -> None:
        self._held: dict[str, HeldFile] = {}
        self._busy: Counter[str] = Counter()
        self.parsing = asyncio.Semaphore(_PARSED_AT_A_TIME)

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Make room for an upload, before it is read; refuse it where there is none."""
        if self._busy.total() >= _UPLOADS or self._busy[address] >= _UPLOADS_OF_ONE:
            raise too_busy(5)
        self._busy[address] += 1
        try:
            yield
        finally:
            self._busy[address] -= 1
            self._busy += Counter()  # forgets those that have none

    def hold(self, content: bytes, filename: str, client: str) -> str:
        """Keep a file for a while; return its name."""
        self._forget()
        mine = [name for name, file in self._held.items() if file.client == client]
        for name in mine[: max(0, len(mine) + 1 - _MOST_OF_ONE)]:
            del self._held[name]
        if sum(len(file.content) for file in self._held.values()) + len(content) > _MOST_HELD:
            raise too_busy(60)
        name = secrets.token_urlsafe(24) + PurePath(filename).suffix
        self._held[name] = HeldFile(content, filename, client, time.monotonic() + _HELD_FOR)
        return name

    def find(self, name: str) -> HeldFile:
        self._forget()
        if name not in self._held:
            raise RefusalError(404, "No such file: it was fetched too late, or never there")
        return self._held[name]

    def _forget(self) -> None:
        now = time.monotonic()
        self._held = {name: file for name, file in self._held.items() if file.until > now}


def extensions() -> list[str]:
    """List the files that can be translated here, by their extensions."""
    known = [extension for format in FORMATS.values() if format.is_available for extension in format.extensions]
    return sorted([*known, _PLAIN])


@dataclass(frozen=True)
class Upload:
    """A file that somebody sent: what it is called, what is in it."""

    filename: str
    content: bytes

    @property
    def suffix(self) -> str:
        return PurePath(self.filename).suffix.lower()

    @property
    def format(self) -> str:
        """The format, which the extension says."""
        return format_of(PurePath(self.filename)) or "text"

    def check(self, service: Service) -> None:
        """Refuse what is too large, or in no format we know."""
        size, settings = len(self.content), service.settings
        if size > settings.file_limit:
            raise too_much(size, settings.file_limit)
        if self.format in _DENSE and size > _LONGEST_CHARACTER * settings.file_char_limit:
            raise too_much(size // _LONGEST_CHARACTER, settings.file_char_limit)  # it need not be read to know that
        if self.format == "html" and (tags := self.content.count(b"<")) > _MOST_TAGS * settings.file_char_limit:
            raise too_much(tags, _MOST_TAGS * settings.file_char_limit)
        if self.suffix not in extensions():
            raise RefusalError(400, "Invalid request: file format not supported")

    def renamed(self, target: str) -> str:
        """Name the translation: report.de.docx."""
        stem = "".join(
            letter for letter in PurePath(self.filename).stem if letter.isprintable() and letter not in '"\\/'
        )
        return f"{stem[:_LONGEST_NAME] or 'file'}.{target}{self.suffix}"

    def parse(self, languages: Languages) -> Document[Any]:
        if FORMATS[self.format].binary:
            return parse(self.content, self.format, languages)
        return parse(decoded(self.content, "the file"), self.format, languages)


async def translate_upload(
    service: Service, desk: FileDesk, request: Request, upload: Upload, fields: dict[str, Any], admit: Any
) -> tuple[str, str, int]:
    """Translate a file; return the name it is held under, the direction, and how many characters it had."""
    upload.check(service)
    try:
        key, document = await _parsed(service, desk, upload, fields)
        size = sum(len(block.text) for block in document.blocks)
        if size > service.settings.file_char_limit:
            raise too_much(size, service.settings.file_char_limit)
        cost = max(1, math.ceil(size / service.settings.char_limit))
        client = admit(cost)
        tasks = _tasks(document.blocks) if key.source != key.target else []
        outcomes = await wait_for(service, client, request, key, tasks, cost * service.settings.timeout)
        content = upload.content
        if tasks:
            translations = _joined(document.blocks, tasks, outcomes)
            async with desk.parsing:
                content = await asyncio.to_thread(lambda: _encoded(document.put_back(translations)))
    except UserError as error:
        raise RefusalError(400, f"Invalid request: {error}") from None
    return desk.hold(content, upload.renamed(key.target), client), f"{key.source}-{key.target}", size


async def _parsed(
    service: Service, desk: FileDesk, upload: Upload, fields: dict[str, Any]
) -> tuple[BatchKey, Document[Any]]:
    """Read a file; where nobody says its language, it is read to find that out."""
    async with desk.parsing:
        if fields["source"] == "auto":
            guess = await asyncio.to_thread(
                upload.parse, Languages(service.catalog.languages[0], str(fields["target"]))
            )
            said = "\n".join(block.text for block in guess.blocks[:100])
            fields = fields | {"source": service.detect(said)[0].language}
        key = file_key(service, fields)
        return key, await asyncio.to_thread(upload.parse, Languages(key.source, key.target))


def _encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def _pieces(block: Block) -> list[Block]:
    """Cut a long block of plain text behind some of its lines; others stay whole."""
    if block.markup or block.tags:
        return [block]
    return [replace(block, text=part.text, raw=part.text) for part in Task(block.text).parts(whole=False)]


def _tasks(blocks: Sequence[Block]) -> list[Task]:
    """Group blocks, so that others need not wait for a whole file."""
    groups: list[list[Block]] = [[]]
    size = 0
    for piece in (piece for block in blocks for piece in _pieces(block)):
        if groups[-1] and size + len(piece.text) > _GROUP:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += len(piece.text)
    return [Task("\n".join(piece.text for piece in group), blocks=tuple(group)) for group in groups if group]


def _joined(blocks: Sequence[Block], tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> list[str]:
    """Put the translations of pieces together again, one for each block."""
    left = iter([text for outcome in outcomes for text in outcome.blocks])
    return ["".join(next(left) for _ in _pieces(block)) for block in blocks]
