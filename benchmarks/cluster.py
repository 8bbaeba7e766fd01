"""What shards and Ray cost, and that they change nothing: the plain command against workers, some of them killed.

    python benchmarks/cluster.py identical TEXT --sentences 200000 --kills 10
    python benchmarks/cluster.py speed TEXT --sentences 20000 --rounds 3
    python benchmarks/cluster.py bound TEXT --sentences 2048 --rounds 4
    python benchmarks/cluster.py overhead TEXT --sentences 50000
    python benchmarks/cluster.py memory --sentences 5000000

`identical` compares bytes. `speed` takes turns: the plain command with one thread, one worker, two workers, and four on
two nodes of a Ray cluster. `bound` says what two cores of this machine give two processes that know nothing of each
other: the plain command alone on a core and on both at once, in turn. `overhead` runs the plain command and one worker
at the same time, each with all its processes on a core of its own, then the other way round. `memory` counts nothing
but lines: a stand-in for the model reverses them.
"""

import argparse
import filecmp
import itertools
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from recoversat.cluster.crew import Crew
from recoversat.cluster.manifest import plan, read_manifest
from recoversat.cluster.run import merge, work_off
from recoversat.cluster.shards import Worker
from recoversat.cluster.translating import shard_translator
from recoversat.files.storage import lines_of

SHARD = 512
TRANSLATE = [sys.executable, "-m", "recoversat", "translate", "--from", "en", "--to", "de"]


def processes_of(session: int) -> list[psutil.Process]:
    """List the processes of a session: all that a command has started."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def is_worker(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[:1] == ["ray::_Actor.finish"]
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


class Command:
    """A command in a session of its own; while it is waited for, its processor time is added up."""

    def __init__(self, arguments: list[object], sessions: tuple[int, ...] = (), core: int | None = None) -> None:
        self._began = time.monotonic()
        pinned = [] if core is None else ["taskset", "-c", str(core)]
        self.process = subprocess.Popen(
            [*pinned, *map(str, arguments)], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._sessions = (self.process.pid, *sessions)
        self._cpu: dict[int, float] = {}
        self._before = sum(self._times().values()) if sessions else 0.0

    def _times(self) -> dict[int, float]:
        times = {}
        for process in itertools.chain.from_iterable(map(processes_of, self._sessions)):
            try:
                times[process.pid] = sum(process.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
        return times

    def wait(self) -> tuple[float, float]:
        """Wait for its end; returns seconds and processor seconds."""
        while self.process.poll() is None:
            self._cpu |= self._times()
            time.sleep(0.2)
        if self.process.returncode:
            raise SystemExit(self.process.stderr.read().decode() if self.process.stderr else "failed")
        return time.monotonic() - self._began, sum(self._cpu.values()) - self._before


def first_lines(source: Path, count: int, out: Path) -> None:
    with open(out, "w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in itertools.islice(lines_of(source), count))


def identical(source: Path, sentences: int, kills: int, workers: int, folder: Path) -> None:
    text, plain, out = folder / "text", folder / "plain", folder / "out"
    first_lines(source, sentences, text)
    seconds, cpu = Command([*TRANSLATE, text, "--out", plain, "--threads", 1]).wait()
    print(
        f"plain command: {seconds:.0f} s, {cpu:.0f} s of processor time, {sentences / cpu:.1f} sentences a second of it"
    )
    command = Command([*TRANSLATE, text, "--out", out, "--workers", workers, "--cluster", "ray", "--shard-size", SHARD])
    rng, killed = random.Random(1), 0
    while command.process.poll() is None and killed < kills:
        time.sleep(rng.uniform(0, 2 * seconds / workers / (kills + 1)))
        alive = [process for process in processes_of(command.process.pid) if is_worker(process)]
        if alive:
            rng.choice(alive).kill()
            killed += 1
    seconds, _ = command.wait()
    same = filecmp.cmp(plain, out / "text", shallow=False)
    print(f"{workers} workers, {killed} of them killed: {seconds:.0f} s, {'identical' if same else 'DIFFERENT'}")
    print((out / "run" / "metrics.prom").read_text())
    if not same or killed < kills:
        raise SystemExit("not shown: outputs differ, or the run ended before all were killed")


def steady_rate(out: Path, workers: int) -> float:
    """Return sentences a second while all workers were at work: without starting, loading and the last shards.

    Workers end their shards nearly together, so it counts as many shards of each: from the first that ended on.
    """
    shards = sorted(read_manifest(out).shards(), key=lambda shard: shard.result.stat().st_mtime)
    ends = [shard.result.stat().st_mtime for shard in shards]
    last = (len(shards) - 1) // workers * workers
    return sum(shard.sentences for shard in shards[1 : last + 1]) / (ends[last] - ends[0])


@contextmanager
def two_nodes(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Start a Ray cluster of two nodes with two processors each on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", "--num-gpus=0"]
    start += ["--disable-usage-stats", "--object-store-memory=80000000", "--node-ip-address=127.0.0.1"]
    head = ["--head", f"--port={address.partition(':')[2]}", "--include-dashboard=false", f"--temp-dir={folder}"]
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        for options in (head, [f"--address={address}"]):
            with open(log := folder / f"log{len(nodes)}", "wb") as stream:
                nodes.append(subprocess.Popen([*start, *options], stdout=stream, stderr=stream, start_new_session=True))
            while "Ray runtime started" not in log.read_text():
                time.sleep(0.1)
        yield address, tuple(node.pid for node in nodes)
    finally:
        for node in reversed(nodes):
            node.send_signal(signal.SIGTERM)
            node.wait(60)


def speed(source: Path, sentences: int, rounds: int, folder: Path) -> None:
    first_lines(source, sentences, text := folder / "text")
    best: dict[str, tuple[float, float, float]] = {}
    with ExitStack() as stack:
        here = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp"))
        address, sessions = stack.enter_context(two_nodes(Path(here)))
        ways: dict[str, tuple[int, str, tuple[int, ...]]] = {
            "plain, one thread": (0, "", ()),
            "one worker": (1, "ray", ()),
            "two workers": (2, "ray", ()),
            "four workers on two nodes": (4, f"ray={address}", sessions),
        }
        for number, (name, (workers, ray, where)) in itertools.product(range(rounds), ways.items()):
            out = folder / f"{number} {name}"
            shared = ["--workers", workers, "--cluster", ray, "--shard-size", SHARD]
            more = shared if workers else ["--threads", 1]
            seconds, cpu = Command([*TRANSLATE, text, "--out", out, *more], where).wait()
            rate = steady_rate(out, workers) if workers else sentences / seconds
            load = os.getloadavg()[0]
            figures = f"{seconds:.1f} s, {cpu:.1f} s of processor time, {rate:.1f} sentences/s, load {load:.1f}"
            print(f"round {number + 1}, {name}: {figures}", flush=True)
            old = best.get(name, (seconds, cpu, rate))
            best[name] = min(old[0], seconds), min(old[1], cpu), max(old[2], rate)
    for name, (seconds, cpu, rate) in best.items():
        print(f"best of {rounds}, {name}: {seconds:.1f} s, {cpu:.1f} s of processor time, {rate:.1f} sentences/s")
    one = best["one worker"][2]
    for name in ("two workers", "four workers on two nodes"):
        print(f"{name}: {best[name][2] / one:.2f} times one worker")
    overhead = best["one worker"][1] / best["plain, one thread"][1]
    print(f"one worker against the plain command, processor time: {overhead:.3f}")


def bound(source: Path, sentences: int, rounds: int, folder: Path) -> None:
    first_lines(source, sentences, text := folder / "text")
    rates: dict[tuple[int, ...], list[float]] = {(0,): [], (1,): [], (0, 1): []}
    for number, cores in itertools.product(range(rounds), rates):
        running = [
            Command([*TRANSLATE, text, "--out", folder / f"{number} {cores} {c}", "--threads", 1], core=c)
            for c in cores
        ]
        with ThreadPoolExecutor(2) as pool:
            rate = sum(sentences / seconds for seconds, _ in pool.map(Command.wait, running))
        rates[cores].append(rate)
        print(f"round {number + 1}, on core {' and '.join(map(str, cores))}: {rate:.1f} sentences/s", flush=True)
    for first, second, both in zip(*rates.values(), strict=True):
        print(f"both at once against one alone: {2 * both / (first + second):.2f} times")


def overhead(source: Path, sentences: int, folder: Path) -> None:
    first_lines(source, sentences, text := folder / "text")
    ways = {"plain": ["--threads", 1], "one worker": ["--workers", 1, "--cluster", "ray", "--shard-size", SHARD]}
    total: dict[str, float] = dict.fromkeys(ways, 0.0)
    for cores in ((0, 1), (1, 0)):
        running = {
            name: Command([*TRANSLATE, text, "--out", folder / f"{name} {core}", *options], core=core)
            for core, (name, options) in zip(cores, ways.items(), strict=True)
        }
        with ThreadPoolExecutor(2) as pool:
            for name, (seconds, cpu) in zip(running, pool.map(Command.wait, running.values()), strict=True):
                total[name] += cpu
                print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of processor time", flush=True)
        if not filecmp.cmp(folder / f"plain {cores[0]}", folder / f"one worker {cores[1]}" / "text", shallow=False):
            raise SystemExit("outputs differ")
    print(f"{sentences:,} sentences, one worker against the plain command, processor time of both rounds: "
          f"{total['one worker'] / total['plain']:.3f}")  # fmt: skip


def reversed_lines() -> Worker:
    """Make a worker that translates nothing."""
    return shard_translator(lambda texts: [text[::-1] for text in texts], lambda: None, jsonl=False)


def memory(sentences: int, workers: int, folder: Path) -> None:
    text = folder / "text"
    with open(text, "w", encoding="utf-8") as stream:
        stream.writelines(
            f"This is sentence {n} of a corpus, {n * n % 9973} words before its end.\n" for n in range(sentences)
        )
    began = time.monotonic()
    manifest = plan(folder / "out", [text], {"model": "none", "jsonl": False}, 2048)
    planned = time.monotonic()
    shards, run = list(manifest.shards()), manifest.run
    crew = Crew(workers=workers, ray=True)
    work_off("memory", shards, reversed_lines, crew, state=run)
    worked = time.monotonic()
    (out,) = merge(manifest)
    merged = time.monotonic()
    with open(text, encoding="utf-8") as before, open(out, encoding="utf-8") as after:
        assert all(line[:-1][::-1] == other[:-1] for line, other in zip(before, after, strict=True))
    peak = psutil.Process().memory_full_info()
    import resource

    print(f"{sentences:,} lines, {text.stat().st_size / 1e6:.0f} MB, {len(shards):,} shards, {workers} workers")
    print(f"plan {planned - began:.1f} s, work {worked - planned:.1f} s, merge {merged - worked:.1f} s")
    print(
        f"driver: peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, now {peak.uss / 1e6:.0f} MB"
    )
    kept = sum(shard.result.stat().st_size for shard in shards) / 1e6
    manifest_size = (run / "manifest.jsonl").stat().st_size / 1e6
    print(f"results {kept:.0f} MB compressed, manifest {manifest_size:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["identical", "speed", "bound", "overhead", "memory"])
    parser.add_argument("text", type=Path, nargs="?", help="English text, one sentence a line")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.text is None and options.what != "memory":
        parser.error("name a text")
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}  # for clusters of our own
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nodes are ended
    folder = Path(tempfile.mkdtemp(prefix="recoversat-cluster-"))
    try:
        if options.what == "identical":
            identical(options.text, options.sentences, options.kills, options.workers, folder)
        elif options.what == "speed":
            speed(options.text, options.sentences, options.rounds, folder)
        elif options.what == "bound":
            bound(options.text, options.sentences, options.rounds, folder)
        elif options.what == "overhead":
            overhead(options.text, options.sentences, folder)
        else:
            memory(options.sentences, options.workers, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
