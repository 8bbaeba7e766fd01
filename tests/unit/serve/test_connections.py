"""Connections of real sockets: who has closed a side of theirs, who does not read, and what is waited for."""

import gc
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
import uvicorn
from starlette.testclient import TestClient

from recoversat.serve.http.connections import limited_connections
from recoversat.serve.settings import ServeSettings
from tests.unit.serve.fake_translator import MakeClient

BODY = json.dumps({"q": "two dogs", "source": "en", "target": "de"}).encode()
Connect = Callable[[], socket.socket]


@contextmanager
def listening(app: Any, settings: ServeSettings) -> Iterator[Connect]:
    """Serve an app on a socket of its own; connections have small buffers on both ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    config = uvicorn.Config(app, http=limited_connections(settings), ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()

    def connect() -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(listener.getsockname())
        return client

    try:
        yield connect
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@pytest.fixture
def service(make_client: MakeClient) -> TestClient:
    return make_client(timeout=10.0)


@pytest.fixture
def connect(service: TestClient) -> Iterator[Connect]:
    with listening(service.app, service.service.settings) as connect:  # type: ignore[attr-defined]
        yield connect


def post(version: str = "1.1", more: str = "") -> bytes:
    head = f"POST /translate HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_served(client: socket.socket) -> bool:
    """Say whether the server, a thread of this process, holds its end of a connection."""
    mine = client.getsockname()[1]
    return any(one.raddr and one.raddr.port == mine for one in psutil.Process().net_connections("tcp"))


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_who_only_closes_the_sending_side_is_answered(
    service: TestClient, connect: Connect, version: str, seconds: float
) -> None:
    with connect() as client:
        service.translator.seconds = seconds  # type: ignore[attr-defined]
        client.sendall(post(version))
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b'\r\n\r\n{"translatedText": "TWO DOGS"}')


def test_all_requests_before_the_end_are_answered(service: TestClient, connect: Connect) -> None:
    with connect() as client:
        service.translator.seconds = 0.2  # type: ignore[attr-defined]
        client.sendall(3 * post() + post()[:-1])
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == answer.count(b'{"translatedText": "TWO DOGS"}') == 3
    assert answer.count(b"HTTP") == 3


def test_half_a_request_is_no_request(connect: Connect) -> None:
    for half in (post()[:-1], post()[:20], b""):
        with connect() as client:
            client.sendall(half)
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("abruptly", [False, True])
def test_nothing_is_done_for_who_has_gone(
    service: TestClient, connect: Connect, caplog: pytest.LogCaptureFixture, version: str, abruptly: bool
) -> None:
    translator, batcher = service.translator, service.service.batcher  # type: ignore[attr-defined]
    translator.gate.clear()
    with connect() as first, connect() as client:
        first.sendall(post())
        assert translator.busy.wait(20)
        client.sendall(post(version, "X: 1\r\n"))
        until(lambda: batcher.waiting == 1)
        if abruptly:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        until(lambda: all(job.future.cancelled() for job in batcher._waiting))
        translator.gate.set()
        assert first.recv(15) == b"HTTP/1.1 200 OK"
    until(lambda: batcher.waiting == 0)
    assert translator.batches == [["two dogs"]]
    time.sleep(0.1)
    gc.collect()
    assert not [record for record in caplog.records if record.exc_info]


def test_who_leaves_after_closing_the_sending_side_has_gone_too(service: TestClient, connect: Connect) -> None:
    translator, batcher = service.translator, service.service.batcher  # type: ignore[attr-defined]
    translator.gate.clear()
    with connect() as first, connect() as client:
        first.sendall(post())
        assert translator.busy.wait(20)
        client.sendall(post())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b"H"  # the answer has begun, so that it is known that somebody reads it
        until(lambda: batcher.waiting == 1)
        client.close()
        until(lambda: all(job.future.cancelled() for job in batcher._waiting))
        translator.gate.set()


def test_an_answer_that_nobody_reads_does_not_keep_a_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        # More than the system takes, too little to be asked to wait: nothing but our clock ends this.
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"60000")]})
        await send({"type": "http.response.body", "body": 60000 * b"x"})

    with listening(app, ServeSettings(timeout=0.5, header_timeout=0.5)) as connect:
        for request in (
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        ):
            with connect() as client:
                client.sendall(request)
                until(lambda: is_served(client))
                until(lambda: not is_served(client))
                assert len(read_all(client)) < 60_000


def test_a_file_is_sent_as_fast_as_it_is_read(service: TestClient) -> None:
    comment = b"<!--" + 4_000_000 * b"x" + b"-->"
    page = b"<p>two dogs</p>" + comment
    form = {"source": "en", "target": "de"}
    url = service.post("/translate_file", files={"file": ("a.html", page)}, data=form).json()["translatedFileUrl"]
    path, sizes = url.removeprefix("http://testserver"), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_on(message: Any) -> None:
            await send(message)
            sizes.append(len(message.get("body", b"")))

        await service.app(scope, receive, send_on)

    with listening(app, ServeSettings()) as connect, connect() as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        time.sleep(0.3)
        assert sum(sizes) < 500_000  # the rest waits in the one copy that all who fetch it share
        assert read_all(client).endswith(b"<p>TWO DOGS</p>" + comment)
    assert sum(sizes) == len(page)


def test_nothing_more_is_sent_to_who_has_gone(service: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    page, form = b"<p>two dogs</p><!--" + 4_000_000 * b"x" + b"-->", {"source": "en", "target": "de"}
    url = service.post("/translate_file", files={"file": ("a.html", page)}, data=form).json()["translatedFileUrl"]
    path = url.removeprefix("http://testserver")
    with listening(service.app, ServeSettings()) as connect:
        for _ in range(20):
            with connect() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                client.recv(1000)
    assert "socket.send() raised exception" not in caplog.text


NO_HTTP = b'\r\n\r\n{"error": "Invalid HTTP request received."}'
CHUNKED = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "request_", [b"GET /livez\r\n\r\n", b"\x16\x03\x01\x00\xf1", CHUNKED + b"1\r\n{\r\nzzzz\r\n", b"X" * 100_000]
)
def test_what_is_no_http_is_told_so(connect: Connect, caplog: pytest.LogCaptureFixture, request_: bytes) -> None:
    with connect() as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1000).endswith(NO_HTTP)
    time.sleep(0.05)
    assert {record.message for record in caplog.records} <= {"Invalid HTTP request received."}


def test_nonsense_behind_an_answer_ends_the_connection(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with connect() as client:
        client.sendall(CHUNKED.replace(b"/translate", b"/nowhere") + b"5\r\nhello\r\n")
        answer = b""
        while not answer.endswith(b'{"error":"Not Found"}'):
            answer += client.recv(9999)
        client.sendall(b"zzzz\r\n")
        assert read_all(client) == b""
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(("size", "status"), [(1, b"400"), (100, b"200")])
def test_chunks_of_one_byte_are_refused(service: TestClient, connect: Connect, size: int, status: bytes) -> None:
    body = 50_000 * b" " + BODY
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    with connect() as client:
        client.sendall(CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 " + status


def test_another_protocol_is_not_spoken(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with connect() as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert client.recv(9999).startswith(b"HTTP/1.1 200 OK")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
