"""Keep `recoversat serve` busy with everything at once, on this machine only, bounded in time and in clients.

    python benchmarks/serve_soak.py --out soak.md                           # 30 minutes, 64 clients, the built-in model
    python benchmarks/serve_soak.py --seconds 60 --kill-every 20            # a short one

Short sentences, long texts, lists, HTML, alternatives, nasty strings and clients that hang up; every `--kill-every`
seconds one worker is killed. Answers are compared with those the same server gave before the load began. One more
client asks for a short sentence now and then: its times, idle and under load, are what a user would feel.
Fails where an answer is lost or belongs to another request, and then prints what the server logged.
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
from serve_load import TEXT, Client, Server, quantile, serving

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.nasty import REPEATED, stretched

MOST_SECONDS, MOST_CLIENTS = 3600, 250
_PATIENCE = 0.5  # seconds before a refused client tries again
_PROBE_EVERY = 0.5
_IDLE_PROBES = 40
Fields = dict[str, object]


@dataclass
class Memory:
    """What a process held, in bytes; `own` is whether it is the one that answers."""

    own: bool
    sizes: list[int] = field(default_factory=list)

    def row(self, pid: int) -> list[str]:
        """Tell start, end and peak in MiB."""
        sizes = (self.sizes[0], self.sizes[-1], max(self.sizes))
        return [f"{'server' if self.own else 'worker'} {pid}", *(str(size >> 20) for size in sizes)]


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
    idle: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    memory: dict[int, Memory] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)
    ends: float = 0.0

    async def run(self, kill_every: float) -> None:
        """Ask for everything once, then put the load on."""
        client = Client(self.server.port)
        for request in self.requests:
            status, content = await client.post("/translate", request)
            self.expected.append(content if status == 200 else None)
        client.close()
        for _ in range(_IDLE_PROBES):
            self.idle.append(await self._probe_once())
            await asyncio.sleep(_PROBE_EVERY / 5)
        self.ends = time.monotonic() + self.seconds
        load = (self._client(number) for number in range(self.clients))
        await asyncio.gather(*load, self._probe(), self._watch(), self._kill(kill_every))

    async def _client(self, me: int) -> None:
        rng, client = random.Random(me), Client(self.server.port, f"127.0.1.{me + 1}")  # each from its own address
        while time.monotonic() < self.ends:
            number = rng.randrange(len(self.requests))
            self.count["requests"] += 1
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
            self.loads.append(os.getloadavg()[0])
            mine = self.server.process.pid
            for pid in [mine, *self.server.workers()]:
                if psutil.pid_exists(pid):
                    self.memory.setdefault(pid, Memory(pid == mine)).sizes.append(psutil.Process(pid).memory_info().rss)
            await asyncio.sleep(min(10.0, self.seconds / 20))

    async def _kill(self, every: float) -> None:
        while time.monotonic() + every < self.ends:
            await asyncio.sleep(every)
            if workers := self.server.workers():
                os.kill(workers[0], signal.SIGKILL)
                self.count["workers killed"] += 1

    def report(self, workers: int) -> str:
        """Write what happened as Markdown."""
        names = ["requests", "right", "lost", "crossed", "changed", "refused", "vanished", "workers killed"]
        names += sorted(name for name in +self.count if name not in names)
        counts = table(names, [[f"{self.count[name]:,}" for name in names]])
        kinds = {"all": self.times, "short, idle": self.idle, "short, under load": self.probes}
        shares = (0.50, 0.95, 0.99, 1.0)
        times = [
            [name, f"{len(own):,}", *(f"{1000 * quantile(own, q):.0f}" for q in shares)] for name, own in kinds.items()
        ]
        p50, p95 = (quantile(self.probes, q) / quantile(self.idle, q) for q in (0.50, 0.95))
        load = f"load average {min(self.loads):.1f} to {max(self.loads):.1f}"
        return "\n\n".join(
            [
                f"{self.clients} clients, {self.seconds:g} seconds, {workers} workers on {os.cpu_count()} cores, "
                f"{load}: {len(self.times) / self.seconds:.1f} answers a second.",
                counts,
                table(["milliseconds", "number", "p50", "p95", "p99", "most"], times),
                f"A short sentence takes {p50:.1f} times as long under load by the median, {p95:.1f} times by p95.",
                table(["MiB", "start", "end", "peak"], [memory.row(pid) for pid, memory in self.memory.items()]),
            ]
        )

    @property
    def is_fine(self) -> bool:
        """Say whether nothing was lost or crossed, and nothing answered with another error."""
        return not any(name in ("lost", "crossed") or name.startswith("status") for name in +self.count)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Write a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] + ["---:"] * (len(head) - 1), *rows])


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
    parser.add_argument("--model", help="model folder; its config names the languages; the built-in model by default")
    parser.add_argument("--text", type=Path, default=TEXT, help="sentences, one a line")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=300)
    parser.add_argument("--out", type=Path, help="file for the tables, as Markdown")
    options = parser.parse_args()
    sentences = list(dict.fromkeys(filter(None, options.text.read_text(encoding="utf-8").splitlines())))[:200]
    pair: Fields = {"source": options.source, "target": options.target}
    with serving(options.model, "--workers", str(options.workers)) as server:
        clients, seconds = min(options.clients, MOST_CLIENTS), min(options.seconds, MOST_SECONDS)
        soak = Soak(server, clients, seconds, mixed_requests(sentences, pair))
        asyncio.run(soak.run(options.kill_every))
        said = [line for line in server.log.read_text().splitlines() if " 200 " not in line]
    report = soak.report(options.workers)
    print(report)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            f"`python benchmarks/serve_soak.py {' '.join(sys.argv[1:])}`: {report}\n", encoding="utf-8"
        )
    if not soak.is_fine:
        print("\n".join(said), file=sys.stderr)
        sys.exit("something was lost, crossed or failed: see above")


if __name__ == "__main__":
    main()
