"""Keep `recoversat serve` busy with everything at once, on this machine only, bounded in time and in clients.

    python benchmarks/serve_soak.py --model MODEL --text sentences.txt --seconds 1800 --clients 64 --workers 2

Short sentences, long texts, lists, HTML, alternatives, nasty strings and clients that hang up; every `--kill-every`
seconds one worker is killed. Answers are compared with those the same server gave before the load began. One more
client asks for a short sentence now and then: its times, idle and under load, are what a user would feel.
Fails where an answer is lost or belongs to another request.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from serve_load import Client, Server, serving

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.nasty import REPEATED, stretched

MOST_SECONDS, MOST_CLIENTS = 3600, 250
_PATIENCE = 0.5  # seconds before a refused client tries again
_PROBE_EVERY = 0.25
Fields = dict[str, object]


@dataclass
class Soak:
    """Clients that ask for random requests out of a fixed set until time is up."""

    server: Server
    clients: int
    seconds: float
    requests: list[Fields]
    expected: list[object] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    ends: float = 0.0

    async def run(self, kill_every: float) -> None:
        """Ask for everything once, then put the load on."""
        client = Client(self.server.port)
        for request in self.requests:
            status, content = await client.post("/translate", request)
            self.expected.append(content if status == 200 else None)
        client.close()
        idle = [await self._probe_once() for _ in range(40)]
        self.ends = time.monotonic() + self.seconds
        load = (self._client(number) for number in range(self.clients))
        await asyncio.gather(*load, self._probe(), self._watch(), self._kill(kill_every))
        self._report(idle)

    async def _client(self, me: int) -> None:
        rng, client = random.Random(me), Client(self.server.port, f"127.0.1.{me + 1}")  # each from its own address
        while time.monotonic() < self.ends:
            number = rng.randrange(len(self.requests))
            if rng.random() < 0.03:
                await self._vanish(self.requests[number])
                continue
            start = time.monotonic()
            try:
                status, content = await client.post("/translate", self.requests[number])
            except (OSError, asyncio.IncompleteReadError):
                self.count["lost"] += 1
                continue
            self._judge(status, content, number, time.monotonic() - start)
            await asyncio.sleep(_PATIENCE if status == 503 else 0.01)
        client.close()

    def _judge(self, status: int, content: object, number: int, seconds: float) -> None:
        if status == 503:
            self.count["refused"] += 1
        elif status == 400 and self.expected[number] is None:
            self.count["over budget"] += 1
        elif status != 200:
            self.count[f"status {status}"] += 1
        else:
            self.times.append(seconds)
            others = [other for at, other in enumerate(self.expected) if at != number]
            same = content == self.expected[number]
            self.count["right" if same else "crossed" if content in others else "changed"] += 1

    async def _vanish(self, fields: Fields) -> None:
        """Ask, and hang up without waiting for the answer."""
        self.count["vanished"] += 1
        _, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        body = json.dumps(fields).encode()
        head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async def _probe_once(self) -> float:
        client, start = Client(self.server.port, "127.0.0.2"), time.monotonic()
        try:
            status, _ = await client.post("/translate", self.requests[0])
        except (OSError, asyncio.IncompleteReadError):
            status = 0
        client.close()
        self.count["probe refused or lost"] += status != 200
        return time.monotonic() - start

    async def _probe(self) -> None:
        while time.monotonic() < self.ends:
            self.probes.append(await self._probe_once())
            await asyncio.sleep(_PROBE_EVERY)

    async def _watch(self) -> None:
        while time.monotonic() < self.ends:
            self.memory.append(self.server.resident() + psutil.Process(self.server.process.pid).memory_info().rss)
            await asyncio.sleep(self.seconds / 20)

    async def _kill(self, every: float) -> None:
        while time.monotonic() + every < self.ends:
            await asyncio.sleep(every)
            if workers := self.server.workers():
                os.kill(workers[0], signal.SIGKILL)
                self.count["workers killed"] += 1

    def _report(self, idle: list[float]) -> None:
        rate = len(self.times) / self.seconds
        print(f"{self.clients} clients, {self.seconds:g} seconds: {rate:.1f} answers a second")
        print(", ".join(f"{name} {number:,}" for name, number in sorted(self.count.items()) if number))
        for name, times in (("all", self.times), ("short, idle", idle), ("short, under load", self.probes)):
            p50, p95, p99 = (1000 * quantile(times, q) for q in (0.50, 0.95, 0.99))
            print(f"{name:<18} p50 {p50:>7.0f} ms   p95 {p95:>7.0f} ms   p99 {p99:>7.0f} ms")
        print("memory MiB", " ".join(f"{size >> 20}" for size in self.memory))

    @property
    def is_fine(self) -> bool:
        """Say whether nothing was lost or crossed, and nothing answered with another error."""
        return not any(name in ("lost", "crossed") or name.startswith("status") for name in +self.count)


def quantile(values: list[float], q: float) -> float:
    """Return the value below which a share q lies."""
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def mixed_requests(sentences: list[str], pair: Fields) -> list[Fields]:
    """Make requests of all kinds; the first is the short one that is also asked for by itself."""
    rng = random.Random(1)
    short = sorted(sentences, key=len)[: max(10, len(sentences) // 2)]
    several = [rng.sample(sentences, min(len(sentences), rng.randint(5, 20))) for _ in range(12)]
    requests: list[Fields] = [{"q": text} for text in [short[0], *rng.sample(short, min(40, len(short)))]]
    requests += [{"q": " ".join(some)} for some in several]
    requests += [{"q": some} for some in several]
    requests += [{"q": "<p>" + "</p><p>".join(f"<b>{s}</b> and {s}" for s in some[:4]) + "</p>", "format": "html"}
                 for some in several]  # fmt: skip
    requests += [{"q": text, "alternatives": 2} for text in rng.sample(short, min(8, len(short)))]
    requests += [{"q": stretched(*nasty, 300)} for nasty in rng.sample(REPEATED, 12)]
    return [request | pair for request in requests]


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder; its config names the languages")
    parser.add_argument("--text", required=True, type=Path, help="sentences, one a line")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=300)
    options = parser.parse_args()
    sentences = list(dict.fromkeys(filter(None, options.text.read_text(encoding="utf-8").splitlines())))[:200]
    pair: Fields = {"source": options.source, "target": options.target}
    with serving(options.model, "--workers", str(options.workers)) as server:
        clients, seconds = min(options.clients, MOST_CLIENTS), min(options.seconds, MOST_SECONDS)
        soak = Soak(server, clients, seconds, mixed_requests(sentences, pair))
        asyncio.run(soak.run(options.kill_every))
    sys.exit(0 if soak.is_fine else "something was lost, crossed or failed: see above")


if __name__ == "__main__":
    main()
