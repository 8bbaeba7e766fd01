"""What one request, or one client, once did to the server; each of these took it down."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from recoversat.files.model_folder import builtin_models

from .serving import Running, sentence, serving, write_exported_model
from .test_serve import until

EN_DE = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_exported_model(tmp_path_factory.mktemp("model") / "exported")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The built-in model: its tokenizer spells what it does not know in bytes, so that a letter may be a book."""
    with serving(builtin_models()[0], tmp_path_factory.mktemp("server") / "log") as running:
        yield running


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time, and the bytes that a worker holds afterwards."""

    seconds: float
    memory: int


@pytest.fixture(scope="module")
def ordinary(server: Running) -> Cost:
    """What an ordinary text of the same length costs."""
    sentences = (Path(__file__).parents[1] / "data/tatoeba.en").read_text(encoding="utf-8").split("\n")
    before = seconds_used(server)
    server.post("/translate", timeout=60, q=" ".join(sentences)[:9990], **EN_DE)
    return Cost(seconds_used(server) - before, memory_held(server))


def seconds_used(server: Running) -> float:
    """Processor time of the server and its workers so far: it does not depend on who else uses the machine."""
    times = [psutil.Process(pid).cpu_times() for pid in [server.process.pid, *server.workers()]]
    return sum(time.user + time.system for time in times)


def memory_held(server: Running) -> int:
    return max(psutil.Process(pid).memory_info().rss for pid in server.workers())


def port(server: Running) -> int:
    return int(server.address.rsplit(":", 1)[1])


def in_progress(server: Running, count: int) -> bool:
    """Say whether so many requests are being answered, beside the one that asks."""
    return f"recoversat_requests_in_progress {count + 1:.1f}" in server.get("/metrics")


def figure(server: Running, name: str) -> float:
    (line,) = [line for line in server.get("/metrics").splitlines() if line.startswith(f"recoversat_{name} ")]
    return float(line.split()[-1])


@contextmanager
def held(server: Running) -> Iterator[None]:
    """Let the worker do nothing for a while, so that it does not matter how fast it is."""
    (worker,) = server.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


@pytest.mark.parametrize(
    ("text", "format_", "share"),
    [
        ("e" + 9000 * "\u0301", "text", 1.0),  # took minutes
        ("a %" + 9990 * "0" + "!", "text", 1.0),  # likewise
        ("<" + 4990 * 'a"', "html", 0.8),  # 1.24
        ("<p " + 9980 * "a" + ">", "html", 0.2),  # 0.62
        ("<b>" + "x" * 9900 + "!<wbr></b>", "html", 0.8),
    ],
    ids=["accents", "conversion", "tag name", "attribute", "last word"],
)
def test_a_nasty_text_costs_no_more_than_others(
    server: Running, ordinary: Cost, text: str, format_: str, share: float
) -> None:
    workers, before = server.workers(), seconds_used(server)
    with ThreadPoolExecutor(1) as pool:
        nasty = pool.submit(server.post, "/translate", timeout=60, q=text, format=format_, **EN_DE)
        assert server.get("/livez")
        nasty.result()
    assert seconds_used(server) - before < share * ordinary.seconds
    assert server.workers() == workers
    assert server.post("/translate", q="alpha", **EN_DE)["translatedText"]
    assert memory_held(server) < 1.5 * ordinary.memory


def test_half_sent_headers_keep_nobody_out(folder: Path, tmp_path: Path) -> None:
    with serving(folder, tmp_path / "log", "--max-connections", "20") as server:
        lazy = [socket.create_connection(("127.0.0.1", port(server)), timeout=30) for _ in range(30)]
        for connection in lazy[:10]:
            connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\n")
        # Ten are one address's half; the others are told so at once.
        assert lazy[-1].recv(1000).startswith(b"HTTP/1.1 503")
        start = time.monotonic()
        for connection in lazy[:10]:
            while True:
                try:
                    connection.sendall(b"X-Drip: 1\r\n")  # a line now and then gains nothing
                    connection.settimeout(1)
                    if connection.recv(1) == b"":
                        break
                except TimeoutError:
                    assert time.monotonic() - start < 30
                except OSError:
                    break
        assert server.post("/translate", q="alpha", **EN_DE)["translatedText"]
        for connection in lazy:
            connection.close()


def test_who_does_not_read_is_cut_off(folder: Path, tmp_path: Path) -> None:
    with serving(folder, tmp_path / "log", "--timeout", "1") as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port(server)))
        client.setblocking(False)
        client.send(b"GET /spec HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)  # more than any buffer on the way can hold
        mine = client.getsockname()[1]

        def is_open() -> bool:
            connections = psutil.Process(server.process.pid).net_connections("tcp")
            return any(connection.raddr and connection.raddr.port == mine for connection in connections)

        until(is_open)
        until(lambda: not is_open())
        assert server.post("/translate", q="alpha", **EN_DE)["translatedText"]


def test_on_a_socket_of_both_kinds_each_old_address_has_its_own_allowance(folder: Path, tmp_path: Path) -> None:
    options = ("--host", "::", "--rate-limit", "2", "--trusted-proxy", "127.0.0.9")

    def status(address: str, forwarded_for: str = "") -> int:
        client = HTTPConnection("127.0.0.1", port(server), source_address=(address, 0))
        client.request("POST", "/detect?q=alpha", headers={"X-Forwarded-For": forwarded_for})
        return client.getresponse().status

    with serving(folder, tmp_path / "log", *options) as server:
        for address in ("127.0.0.2", "127.0.0.3"):
            assert [status(address, "10.0.0.1") for _ in range(3)] == [
                200,
                200,
                429,
            ]  # who is not trusted is not believed
        for user in ("10.0.0.1", "10.0.0.2"):
            assert [status("127.0.0.9", user) for _ in range(3)] == [200, 200, 429]


def test_a_worker_that_hangs_is_replaced_and_its_work_done(folder: Path, tmp_path: Path) -> None:
    with serving(folder, tmp_path / "log", "--hang-timeout", "2") as server, ThreadPoolExecutor(1) as pool:
        (stuck,) = server.workers()
        os.kill(stuck, signal.SIGSTOP)
        waiting = pool.submit(server.post, "/translate", timeout=60, q=sentence(5), **EN_DE)
        until(lambda: "hangs and is killed" in server.log.read_text())
        assert waiting.result(60)["translatedText"]
        assert server.workers() != [stuck]
        assert json.loads(server.get("/health")) == {"status": "ok"}


def test_a_server_whose_worker_hangs_is_alive_but_not_ready(folder: Path, tmp_path: Path) -> None:
    def status(path: str) -> int:
        try:
            return int(urllib.request.urlopen(server.address + path, timeout=10).status)
        except urllib.error.HTTPError as error:
            return error.code

    with serving(folder, tmp_path / "log") as server, ThreadPoolExecutor(1) as pool:
        (stuck,) = server.workers()
        os.kill(stuck, signal.SIGSTOP)
        waiting = pool.submit(server.post, "/translate", timeout=60, q=sentence(5), **EN_DE)
        until(lambda: status("/health") == 503)
        assert status("/livez") == 200
        os.kill(stuck, signal.SIGCONT)
        assert waiting.result(60)["translatedText"]
        assert status("/health") == 200


def nothing_waits(server: Running) -> bool:
    """Say whether the queue is empty, and stays so: a request is on its way to it for a moment."""
    return not any(figure(server, "queue_length") or time.sleep(0.03) for _ in range(10))


@pytest.mark.parametrize("kind", ["text", "list", "alternatives"])
def test_a_short_sentence_goes_in_between(folder: Path, tmp_path: Path, kind: str) -> None:
    long = {
        "text": {"q": " ".join(sentence(number) for number in range(8))},
        "list": {"q": [sentence(number) for number in range(8)]},
        "alternatives": {"q": sentence(4), "alternatives": 10},
    }[kind]

    def short() -> str:
        client = HTTPConnection("127.0.0.1", port(server), source_address=("127.0.0.2", 0), timeout=60)
        client.request("POST", "/translate?source=en&target=de&q=alpha%20bravo")
        return str(json.load(client.getresponse())["translatedText"])

    with serving(folder, tmp_path / "log") as server, ThreadPoolExecutor(2) as pool:
        alone, other = short(), server.post("/translate", **long, **EN_DE)
        with held(server):
            first = pool.submit(server.post, "/translate", timeout=60, **long, **EN_DE)
            until(lambda: in_progress(server, 1))
            until(lambda: nothing_waits(server))  # the worker has it: what comes now goes in between, not before
            second = pool.submit(short)
            until(lambda: in_progress(server, 2))
            until(lambda: nothing_waits(server))  # the short one has been given to the worker too
        assert second.result() == alone
        assert first.result() == other
        until(lambda: server.log.read_text().count("POST /translate 200") == 4)
    sizes = [line.split()[-2] for line in server.log.read_text().splitlines() if "POST /translate 200" in line]
    assert sizes[2:] == ["11", sizes[1]]  # characters: the short one was answered first, though it came last


def test_nothing_is_decoded_for_a_client_that_has_left(folder: Path, tmp_path: Path) -> None:
    texts = [" ".join([sentence(number)] * 150) for number in range(6)]
    body = json.dumps({"q": texts, "alternatives": 5, **EN_DE}).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    kind = "Content-Type: application/json\r\n\r\n"
    with serving(folder, tmp_path / "log", "--piece-limit", "1000000") as server:
        with held(server):
            with socket.create_connection(("127.0.0.1", port(server))) as client:
                client.sendall((head + kind).encode() + body)
                until(lambda: in_progress(server, 1))
                until(lambda: figure(server, "queue_length") < len(texts))  # one has been given to the worker
            until(lambda: " 499 " in server.log.read_text())
        assert server.post("/translate", timeout=60, q="alpha", **EN_DE)["translatedText"]
        assert figure(server, "sentences_total") < 100  # of thousands


def test_workers_leave_when_the_server_is_killed(folder: Path, tmp_path: Path) -> None:
    texts = [" ".join([sentence(number)] * 150) for number in range(6)]
    limits = "--piece-limit", "1000000", "--workers", "2"
    with serving(folder, tmp_path / "log", *limits) as server, ThreadPoolExecutor(1) as pool:
        workers = server.workers()
        waiting = pool.submit(server.post, "/translate", timeout=60, q=texts, alternatives=10, **EN_DE)
        until(lambda: in_progress(server, 1))
        server.process.kill()
        until(lambda: not any(psutil.pid_exists(pid) for pid in workers))
        assert waiting.exception() is not None
    assert "Traceback" not in (tmp_path / "log").read_text()


def send_file(server: Running, content: str) -> int:
    """Send a text file; return the status of the answer."""
    fields = {"source": "en", "target": "de"}.items()
    parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
    file = f'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{content}\r\n--b--\r\n'
    client = HTTPConnection("127.0.0.1", port(server), timeout=20)
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    client.request("POST", "/translate_file", "".join([*parts, file]), kind)
    return client.getresponse().status


def test_a_file_that_does_harm_costs_nobody_else_anything(tmp_path: Path) -> None:
    bad = "from recoversat.serve.http import files; from tests.unit.serve import bad_documents as bad"
    prelude = f"{bad}; files.read_document = bad.read_as_told"
    with serving(builtin_models()[0], tmp_path / "log", prelude=prelude) as server, ThreadPoolExecutor(1) as pool:
        workers = server.workers()
        assert [send_file(server, harm) for harm in ("alpha", "crash", "allocate", "bravo")] == [200, 500, 400, 200]
        (fork_server,) = [pid for pid in server.workers() if pid not in workers]
        looping = pool.submit(send_file, server, "loop")
        until(lambda: bool(psutil.Process(fork_server).children()))
        assert server.get("/livez")
        assert server.post("/translate", q="alpha", **EN_DE)["translatedText"]
        assert not looping.done()
        psutil.Process(fork_server).children()[0].kill()  # as a system does that has no memory left
        assert looping.result() == 400
        waiting = pool.submit(send_file, server, "slowly alpha")
        until(lambda: bool(psutil.Process(fork_server).children()))
        os.killpg(server.process.pid, signal.SIGTERM)  # reaches them all; the server waits for its children
        assert waiting.result() == 200
        assert server.process.wait(20) == 0
        assert not any(psutil.pid_exists(pid) for pid in (*workers, fork_server))
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_no_temporary_space_is_needed(folder: Path, tmp_path: Path) -> None:
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)"
    nowhere = {**os.environ, "TMPDIR": "/nonexistent", "TEMP": "/nonexistent", "TMP": "/nonexistent"}
    run = "import runpy; sys.argv = sys.argv[2:]; runpy.run_module('recoversat', run_name='__main__')"
    options = ["recoversat", "serve", "--model", str(folder), "--port", "0"]
    with open(tmp_path / "log", "wb") as log:  # no file may grow over 64 KiB: what is unpacked would
        limit = 64 << 10
        process = subprocess.Popen(
            [sys.executable, "-c", f"{code}; {run}", str(limit), *options], stderr=log, env=nowhere
        )
    try:
        until(lambda: "serves http" in (tmp_path / "log").read_text() or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "log").read_text()
    finally:
        process.terminate()
        assert process.wait(30) == 0


def test_the_second_of_two_servers_says_why_it_cannot_start(folder: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    command = [sys.executable, "-m", "recoversat", "serve", "--model", str(folder), "--port", str(number)]
    logs = [tmp_path / "one", tmp_path / "other"]
    with open(logs[0], "wb") as one, open(logs[1], "wb") as other:  # at once: both find the port free
        both = [subprocess.Popen(command, stderr=log) for log in (one, other)]
    try:
        until(lambda: any(process.poll() is not None for process in both), 120)
        until(lambda: any("serves http" in log.read_text() for log in logs), 120)
        said = [log.read_text() for process, log in zip(both, logs, strict=True) if process.poll() == 2]
        (first,) = [text for log in logs if "serves http" in (text := log.read_text())]
        assert first.index("loading en-de") < first.index("serves http")  # nobody wonders whether it hangs
        assert len(said) == 1
        assert "choose another --host or --port" in said[0]
        assert "Traceback" not in said[0]
    finally:
        for process in both:
            process.terminate()
            process.wait(60)
