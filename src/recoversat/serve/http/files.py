"""Files over HTTP: an upload is read in a process of its own, its blocks wait as texts do, the result is held."""

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ParamSpec, TypeVar

from fastapi import Request

from recoversat.errors import UserError
from recoversat.serve.http.answering import file_key, on_offer, translate_blocks, while_wanted
from recoversat.serve.http.refusals import RefusalError, too_busy, too_much
from recoversat.serve.process.fork_server import ChildLostError, Limits
from recoversat.serve.process.logs import log
from recoversat.serve.service import Service
from recoversat.serve.work.documents import MOST_TAGS, Reading, read_document, write_document
from recoversat.serve.work.translating import BatchKey
from recoversat.text.documents import FORMATS, Languages, format_of

P = ParamSpec("P")
R = TypeVar("R")

_HELD_FOR = 600.0  # seconds
_MOST_HELD = 200_000_000  # bytes of all files together
_MOST_OF_ONE = 10  # files of one client
_UPLOADS, _UPLOADS_OF_ONE = 16, 2  # that are read or translated at a time
_CHILDREN = 2  # processes that read or write a file at a time
_LONGEST_NAME = 100
_PLAIN = ".txt"
_DENSE = ("text", "md")  # of these nearly all is to be translated
_LONGEST_CHARACTER = 4  # bytes


@dataclass(frozen=True)
class HeldFile:
    """A translated file that waits to be fetched."""

    content: bytes
    filename: str
    client: str
    until: float  # on the monotonic clock


class FileDesk:
    """Translated files in memory, by names nobody can guess, and how many are being worked on."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._held: dict[str, HeldFile] = {}
        self._busy: Counter[str] = Counter()
        self._children = asyncio.Semaphore(_CHILDREN)

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

    async def in_child(self, request: Request, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Have a document read or written in a process of its own, unless its sender leaves."""
        settings, fork_server = self._service.settings, self._service.fork_server

        async def work() -> R:
            async with self._children:
                limits = Limits(settings.file_seconds, settings.file_memory)
                return await fork_server.call(limits, function, *args, **named)

        try:
            return await while_wanted(request, work())
        except UserError as error:
            raise RefusalError(400, f"Invalid request: {error}") from None
        except ChildLostError as error:
            log.error("a file was not read or written: %s", error)
            raise RefusalError(500, "Cannot translate file: reading or writing it failed") from None

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
        if self.format == "html" and (tags := self.content.count(b"<")) > MOST_TAGS * settings.file_char_limit:
            raise too_much(tags, MOST_TAGS * settings.file_char_limit)
        if self.suffix not in extensions():
            raise RefusalError(400, "Invalid request: file format not supported")

    def renamed(self, target: str) -> str:
        """Name the translation: report.de.docx."""
        stem = "".join(
            letter for letter in PurePath(self.filename).stem if letter.isprintable() and letter not in '"\\/'
        )
        return f"{stem[:_LONGEST_NAME] or 'file'}.{target}{self.suffix}"


async def translate_upload(
    service: Service, desk: FileDesk, request: Request, upload: Upload, fields: dict[str, Any], admit: Any
) -> tuple[str, str, int]:
    """Translate a file; return the name it is held under, the direction, and how many characters it had."""
    upload.check(service)
    admit(1)  # to read it is work, whatever comes of it
    key, reading = await _read(service, desk, request, upload, fields)
    if reading.size > service.settings.file_char_limit:
        raise too_much(reading.size, service.settings.file_char_limit)
    cost = max(1, math.ceil(reading.size / service.settings.char_limit))
    client = admit(cost, paid=1)
    content = upload.content
    if key.source != key.target and reading.groups:
        timeout = cost * service.settings.timeout
        translations = await translate_blocks(service, client, request, key, reading.groups, timeout)
        languages = Languages(key.source, key.target)
        content = await desk.in_child(request, write_document, content, upload.format, languages, translations)
    return desk.hold(content, upload.renamed(key.target), client), f"{key.source}-{key.target}", reading.size


async def _read(
    service: Service, desk: FileDesk, request: Request, upload: Upload, fields: dict[str, Any]
) -> tuple[BatchKey, Reading]:
    """Read a file; where nobody says its language, it is read to find that out."""

    async def read(source: str, target: str) -> Reading:
        most = service.settings.file_char_limit
        return await desk.in_child(
            request, read_document, upload.content, upload.format, Languages(source, target), most
        )

    if fields["source"] != "auto":
        key = file_key(service, fields)
        return key, await read(key.source, key.target)
    guess = await read(service.catalog.languages[0], on_offer(service, str(fields["target"])))
    key = file_key(service, fields | {"source": service.detect(guess.beginning)[0].language})
    return key, await read(key.source, key.target) if FORMATS[upload.format].bilingual else guess
