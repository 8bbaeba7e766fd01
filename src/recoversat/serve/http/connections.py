"""Connections: how many there may be, and how long each may take to send a request or to read its answer."""

import asyncio
import json
import resource
from collections import Counter
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from recoversat.serve.http.rate_limit import network_of
from recoversat.serve.settings import ServeSettings

_SPARE_FILES = 100  # for pipes, the log and what libraries open
_FREE_CHUNKS, _SMALLEST_CHUNK = 5_000, 16  # bytes on average, beyond those that are free

_BEGINNING = b"HTTP/1.1 "  # of every answer
_FIRST_PAUSE = 0.1  # seconds between its first two letters; each pause is twice as long as the one before


def _refusal(status: str, error: str) -> bytes:
    """Write an answer of our own, where the app is not asked."""
    body = json.dumps({"error": error})
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


class _Connection(h11.Connection):
    """HTTP with chunks of some size: to read one takes as long as a thousand bytes of a larger one."""

    _chunks = _bytes = 0

    def next_event(self) -> Any:
        """Read what comes next."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        if isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > _FREE_CHUNKS + self._bytes // _SMALLEST_CHUNK:
                raise h11.RemoteProtocolError("chunks are too small")
        return event


class _Begun(asyncio.Transport):
    """The way to a client that has closed its sending side: the beginning of its answer goes ahead letter by letter.

    A client that waits for its answer and one that has gone look the same, until something is sent to them: then the
    system of the latter says that nobody is there, and the next letter finds the connection lost.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop, self._ahead = transport, loop, 0
        self._send_letter(_FIRST_PAUSE)

    def _send_letter(self, pause: float) -> None:
        self._transport.write(_BEGINNING[self._ahead : self._ahead + 1])
        self._ahead += 1
        self._timer = self._loop.call_later(pause, self._send_letter, 2 * pause)
        if self._ahead == len(_BEGINNING) or self._transport.is_closing():
            self._timer.cancel()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send what has not gone ahead."""
        self._timer.cancel()
        self._transport.write(data[self._ahead :])
        self._ahead = 0

    def close(self) -> None:
        """Close it once everything is sent."""
        self._timer.cancel()
        self._transport.close()

    def is_closing(self) -> bool:
        """Say whether it is closed, or about to be."""
        return self._transport.is_closing()


class ConnectionLimits:
    """How many connections there may be in all and from one address, and how many seconds a client may take."""

    def __init__(self, settings: ServeSettings) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.header_seconds, self.answer_seconds = settings.header_timeout, settings.timeout
        self._most = max(1, min(settings.max_connections, files - _SPARE_FILES))
        self._proxy = settings.trusted_proxy and network_of(settings.trusted_proxy)
        self._open: Counter[str] = Counter()

    def count(self, address: str) -> bool:
        """Note a connection; say whether it may stay. A trusted proxy speaks for many: it may have them all."""
        self._open[address] += 1
        allowed = self._most if address == self._proxy else max(1, self._most // 2)
        return self._open.total() <= self._most and self._open[address] <= allowed

    def forget(self, address: str) -> None:
        """Note that a connection is closed."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with limits."""

    _address = ""
    _awaited: Any = None  # which state of h11 a client is to leave in time
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None  # runs while a client does not read its answer
    _said_all = False  # the client has closed its sending side

    def __init__(self, *args: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn = _Connection(h11.SERVER)
        self._address = network_of(self.client[0]) if self.client else ""
        if not self._limits.count(self._address):
            error = "Too many connections: try again later"
            transport.write(_refusal("503 Service Unavailable\r\nRetry-After: 1", error))
            transport.close()
        else:
            self._wait_for_client()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._limits.forget(self._address)
        self._cancel_timer()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_client()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless an answer has begun; what was asked for up to there is not done."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_refusal("400 Bad Request", msg))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as if nothing but HTTP had been asked for, which is what the protocol wants."""

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open where there is something to answer."""
        self._said_all = True
        return self._answers_on()

    def _answers_on(self) -> bool:
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        if cycle.transport is self.transport and not cycle.response_started:
            cycle.transport = _Begun(self.transport, self.loop)
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._said_all and not self._answers_on():  # else there was another request right behind
            self.transport.close()
        self._wait_for_client()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread:
            self._unread.cancel()
            self._unread = None

    def _wait_for_client(self) -> None:
        """Give the client so long for the headers, then for the body; a byte now and then gains it nothing."""
        state = self.conn.their_state
        if state is self._awaited and self._timer:
            return
        self._cancel_timer()
        self._awaited = state
        if state is h11.IDLE:
            self._timer = self.loop.call_later(self._limits.header_seconds, self.transport.abort)
        elif state is h11.SEND_BODY:
            self._timer = self.loop.call_later(self._limits.answer_seconds + 1, self.transport.abort)
        elif self.transport.is_closing():  # once its last answer is read
            self._timer = self.loop.call_later(self._limits.answer_seconds, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


def limited_connections(settings: ServeSettings) -> Any:
    """Make the protocol of a server with these settings: to uvicorn, what makes one is as good as a class."""
    return partial(LimitedProtocol, limits=ConnectionLimits(settings))
