"""Put load on `recoversat serve`, on this machine only, bounded in time and number of requests.

    python benchmarks/serve_load.py compare --clients 256   # with and without dynamic batching, the built-in model
    python benchmarks/serve_load.py kill    --model MODEL --text sentences.txt   # a worker dies under load
    python benchmarks/serve_load.py memory  --model MODEL --text sentences.txt   # does it grow?

Every client knows the translation of its own sentences, asked for one by one before the load begins, and
compares each answer with it: a lost, crossed or changed answer is counted and makes the script fail.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MOST_SECONDS, MOST_REQUESTS, MOST_CLIENTS = 600, 200_000, 1000
TEXT = Path(__file__).parents[1] / "tests/data/tatoeba.en"


@dataclass
class Tally:
    """What became of the requests of one run."""

    right: int = 0
    crossed: int = 0  # the translation of another sentence
    changed: int = 0  # of none: decoding depended on its neighbours in the batch
    refused: int = 0  # 503: the queue was full
    lost: int = 0  # no answer
    seconds: list[float] = field(default_factory=list)
    wall: float = 0.0
    batch: float = 0.0  # texts translated together on average

    def row(self, name: str) -> str:
        """Print the figures of a run in one line."""
        p50, p95, p99 = (1000 * quantile(self.seconds, q) for q in (0.50, 0.95, 0.99))
        return (
            f"{name:<22}{len(self.seconds):>9,}{len(self.seconds) / self.wall:>9.1f}{p50:>9.0f}{p95:>9.0f}{p99:>9.0f}"
            f"{self.batch:>8.1f}{self.lost:>7}{self.crossed:>9}{self.changed:>9}{self.refused:>9}"
        )


HEADER = (
    f"{'':<22}{'answers':>9}{'a second':>9}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}"
    f"{'batch':>8}{'lost':>7}{'crossed':>9}{'changed':>9}{'refused':>9}"
)


def quantile(values: list[float], q: float) -> float:
    """Return the value below which a share q lies."""
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


class Client:
    """One connection to the server, kept open; `address` is the one of this machine it comes from."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._port, self._address = port, address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, fields: dict[str, object]) -> tuple[int, dict[str, object]]:
        """Send JSON, read the answer; a broken connection raises and is opened anew next time."""
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection(
                    "127.0.0.1", self._port, local_addr=(self._address, 0)
                )
            body = json.dumps(fields).encode()
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert self._reader is not None
            answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(re.search(r"content-length: (\d+)", answer)[1])  # type: ignore[index]
            content = await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise
        if "connection: close" in answer:
            self.close()
        return int(answer.split()[1]), json.loads(content)

    def close(self) -> None:
        """Close the connection."""
        if self._writer:
            self._writer.close()
        self._writer = None


@dataclass
class Server:
    """A running server."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    def workers(self) -> list[int]:
        """List the processes that serve."""
        children = psutil.Process(self.process.pid).children()
        return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]

    def resident(self) -> int:
        """Add up the memory of all workers, in bytes."""
        return sum(psutil.Process(pid).memory_info().rss for pid in self.workers())

    def batches(self) -> tuple[float, float]:
        """Ask how many texts were translated, and in how many batches."""
        import urllib.request

        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            figures = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        return float(figures["recoversat_batch_size_sum"]), float(figures["recoversat_batch_size_count"])


@contextmanager
def serving(model: str | None, *options: str) -> Iterator[Server]:
    """Run a server on a free port of this machine, with the built-in model unless told."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "recoversat", "serve", "--port", "0", *options]
        command += ["--model", model] if model else []
        with open(log, "wb") as stream:
            process = subprocess.Popen(command, stderr=stream)
        try:
            end = time.monotonic() + 120
            while not (found := re.search(r"serves http://127.0.0.1:(\d+)", log.read_text())):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"the server did not start:\n{log.read_text()}")
                time.sleep(0.1)
            yield Server(process, int(found[1]), log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


async def expected_answers(server: Server, sentences: list[str], pair: dict[str, object]) -> dict[str, str]:
    """Ask for every sentence alone."""
    client = Client(server.port)
    answers = {}
    for sentence in sentences:
        _, content = await client.post("/translate", {"q": sentence, **pair})
        answers[sentence] = str(content["translatedText"])
    client.close()
    return answers


@dataclass
class Load:
    """Clients that ask one thing after the other until time or requests are used up."""

    server: Server
    answers: dict[str, str]
    pair: dict[str, object]
    clients: int
    seconds: float
    requests: int
    tally: Tally = field(default_factory=Tally)

    async def run(self) -> Tally:
        """Put the load on and count."""
        sentences, begin = list(self.answers), time.monotonic()
        ends, left = begin + self.seconds, iter(range(self.requests))
        others = set(self.answers.values())

        async def one(me: int) -> None:
            client, number = Client(self.server.port), me
            while time.monotonic() < ends and next(left, None) is not None:
                sentence, number = sentences[number % len(sentences)], number + self.clients + 1
                await self._ask(client, sentence, others)
            client.close()

        before = self.server.batches()
        await asyncio.gather(*(one(me) for me in range(self.clients)))
        self.tally.wall = time.monotonic() - begin
        texts, batches = (now - then for now, then in zip(self.server.batches(), before, strict=True))
        self.tally.batch = texts / max(1.0, batches)
        return self.tally

    async def _ask(self, client: Client, sentence: str, others: set[str]) -> None:
        start, tally = time.monotonic(), self.tally
        try:
            status, content = await client.post("/translate", {"q": sentence, **self.pair})
        except (OSError, asyncio.IncompleteReadError):
            tally.lost += 1
            return
        if status == 503:
            tally.refused += 1
            await asyncio.sleep(0.1)
            return
        tally.seconds.append(time.monotonic() - start)
        found = content.get("translatedText")
        if found == self.answers[sentence]:
            tally.right += 1
        else:
            tally.crossed += found in others
            tally.changed += found not in others


def prepare_load(server: Server, options: argparse.Namespace) -> Load:
    """Learn the right answers and get ready."""
    sentences = list(dict.fromkeys(line for line in options.text.read_text().splitlines() if line.strip()))
    pair: dict[str, object] = {"source": options.source, "target": options.target}
    answers = asyncio.run(expected_answers(server, sentences[: options.sentences], pair))
    print(f"{len(answers)} sentences, {len(set(answers.values()))} different translations", file=sys.stderr)
    return Load(server, answers, pair, options.clients, options.seconds, options.requests)


def compare(options: argparse.Namespace) -> bool:
    """Print throughput and latency with and without dynamic batching side by side."""
    print(HEADER)
    fine = True
    for name, batching in (("each alone", ("--batch-size", "1", "--batch-window", "0")), ("dynamic batching", ())):
        with serving(options.model, "--workers", str(options.workers), *batching) as server:
            tally = asyncio.run(prepare_load(server, options).run())
            print(tally.row(name), flush=True)
            fine = fine and tally.lost == tally.crossed == 0
    return fine


def kill(options: argparse.Namespace) -> bool:
    """Kill one of several workers half way: only what it held may be lost, and the service goes on."""
    with serving(options.model, "--workers", str(max(2, options.workers))) as server:
        load = prepare_load(server, options)

        async def both() -> None:
            running = asyncio.ensure_future(load.run())
            await asyncio.sleep(options.seconds / 2)
            victim = server.workers()[0]
            os.kill(victim, signal.SIGKILL)
            print(f"killed worker {victim} after {load.tally.right:,} answers", file=sys.stderr)
            await running

        asyncio.run(both())
        print(HEADER)
        print(load.tally.row("one worker killed"))
        return load.tally.crossed == 0 and load.tally.lost <= options.clients and len(server.workers()) >= 2


def memory(options: argparse.Namespace) -> bool:
    """Print the memory of the workers every tenth of the requests; after the first tenth it must stay flat."""
    with serving(options.model, "--workers", str(options.workers)) as server:
        load = prepare_load(server, options)
        load.requests = options.requests // 10
        sizes = []
        for tenth in range(1, 11):
            asyncio.run(load.run())
            sizes.append(server.resident())
            print(f"{tenth * load.requests:>9,} requests {sizes[-1] / 2**20:>8.1f} MiB", flush=True)
        return load.tally.lost == load.tally.crossed == 0 and sizes[-1] < sizes[0] * 1.05


def main() -> None:
    """Read the command line and run one of the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", choices=["compare", "kill", "memory"])
    parser.add_argument("--model", help="model folder; its config names the languages; the built-in model by default")
    parser.add_argument("--text", type=Path, default=TEXT, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=200, help="use at most so many of them")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120, help="for each run")
    parser.add_argument("--requests", type=int, default=50_000, help="at most, for each run")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    options.seconds, options.requests = min(options.seconds, MOST_SECONDS), min(options.requests, MOST_REQUESTS)
    options.clients = min(options.clients, MOST_CLIENTS)
    fine = {"compare": compare, "kill": kill, "memory": memory}[options.test](options)
    sys.exit(0 if fine else "something was lost, crossed or grew: see above")


if __name__ == "__main__":
    main()
