"""Two servers behind a small load balancer, replaced one after the other under load: no request is lost."""

import http.client
import itertools
import json
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from recoversat.files.model_folder import builtin_model, model_fingerprint
from recoversat.translator import Translator

from .serving import Running, serving


class Proxy(ThreadingHTTPServer):
    """Asks servers in turn; what one refuses (503) or does not take (refused, reset) the next one gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.backends: list[str] = []
        self.turns = itertools.count()
        self.second_tries = 0

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        first, backends = next(self.turns), list(self.backends)
        for number in range(len(backends)):
            host = backends[(first + number) % len(backends)]
            connection = http.client.HTTPConnection(host, timeout=30)
            try:
                connection.request("POST", path, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                status, found = answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                status, found = 502, b"{}"
            finally:
                connection.close()
            if status not in (502, 503):
                return status, found
            self.second_tries += 1
        return status, found


class _Forward(BaseHTTPRequestHandler):
    server: Proxy

    def do_POST(self) -> None:
        status, found = self.server.ask(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(status)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def balanced() -> Iterator[Proxy]:
    with Proxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


class Load:
    """Clients that ask all the time and count what they get."""

    def __init__(self, address: str, answers: dict[str, str], clients: int = 3) -> None:
        self._address, self._answers, self._stop = address, answers, threading.Event()
        self.right, self.wrong = [0] * clients, list[str]()
        self._threads = [threading.Thread(target=self._ask, args=(me,)) for me in range(clients)]

    def _ask(self, me: int) -> None:
        for text in itertools.islice(itertools.cycle(self._answers), me, None):
            if self._stop.is_set():
                return
            body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
            try:
                with urllib.request.urlopen(f"{self._address}/translate", body, timeout=60) as answer:
                    found = json.load(answer)["translatedText"]
            except Exception as error:
                found = repr(error)
            if found == self._answers[text]:
                self.right[me] += 1
            else:
                self.wrong.append(f"{text} -> {found}")
            time.sleep(0.02)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int) -> None:
        goal, end = sum(self.right) + more, time.monotonic() + 60
        while sum(self.right) < goal:
            assert time.monotonic() < end, self.wrong
            time.sleep(0.02)


def test_servers_are_replaced_under_load_and_no_request_is_lost(tmp_path: Path) -> None:
    model = builtin_model("en", "de")
    texts = [f"{greeting}, {name}!" for greeting in ("Hello", "Good morning") for name in ("Tom", "Mary", "Ken")]
    answers = {one.source: one.text for one in Translator(model, source="en", target="de").translate(texts)}

    with ExitStack() as stack, balanced() as proxy:

        def start(name: str) -> Running:
            server = stack.enter_context(serving(model, tmp_path / name))
            assert json.loads(server.get("/health")) == {"status": "ok"}
            proxy.backends.append(server.address.removeprefix("http://"))
            return server

        old = [start("first"), start("second")]
        with Load(f"http://127.0.0.1:{proxy.server_port}", answers) as load:
            load.wait_for(12)
            new = start("third")
            fingerprints = [json.loads(each.get("/frontend/settings"))["fingerprint"] for each in (*old, new)]
            assert fingerprints == [model_fingerprint(model)] * 3
            proxy.backends.pop(0)  # the first one is taken out before it is told to stop,
            old[0].process.send_signal(signal.SIGTERM)
            assert old[0].process.wait(40) == 0
            load.wait_for(12)
            old[1].process.send_signal(signal.SIGTERM)  # the second one is not: its refusals are asked elsewhere
            assert old[1].process.wait(40) == 0
            load.wait_for(12)
        assert not load.wrong
        assert proxy.second_tries > 0
