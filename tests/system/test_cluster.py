"""A real Ray cluster on this machine, whose workers, nodes and drivers are killed: nothing is lost or done twice."""

import gzip
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from recoversat.cluster.crew import Crew
from recoversat.config import DataConfig
from recoversat.data.corpus import open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.errors import UserError
from recoversat.files.model_folder import builtin_model
from recoversat.pipeline.distill import distill
from recoversat.pipeline.options import DistillOptions

from .conftest import Run
from .shouting import LINES_A_SHARD, Shouting, plan_of, shout
from .tiny_model import write_sentences, write_tiny_model

DRIVER = Path(__file__).with_name("shouting.py")
TATOEBA = Path(__file__).parents[1] / "data" / "tatoeba.en"


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@contextmanager
def ray_node(folder: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `ray start --block ...` in a session of its own, and end all that belongs to it."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-gpus=0", "--disable-usage-stats"]
    command += ["--object-store-memory=80000000", *options]
    with open(log := folder / "log", "wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
    try:
        until(lambda: "Ray runtime started" in log.read_text())
        yield process
    finally:
        kill_node(process)


def kill_node(process: "subprocess.Popen[bytes]") -> None:
    """End a node as a power cut does: all of its processes at once."""
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == process.pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait(30)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The head of a cluster of our own: a token keeps everybody else out. This process is connected to it."""
    assert "ray" not in sys.modules  # it reads the token when it is imported
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    import ray

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = Path("/tmp") / f"ray-{os.getpid()}"  # sockets need a short name
    here.mkdir()
    head = f"--head --num-cpus=2 --port={port} --node-ip-address=127.0.0.1 --include-dashboard=false --temp-dir={here}"
    try:
        with ray_node(tmp_path_factory.mktemp("head"), *head.split()):
            ray.init(address=f"127.0.0.1:{port}", log_to_driver=False, logging_level="ERROR")
            yield f"127.0.0.1:{port}"
            ray.shutdown()
    finally:
        shutil.rmtree(here, ignore_errors=True)
        del os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(f"line {number}\n" for number in range(20 * LINES_A_SHARD)))
    return path


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something beside the block; what fails there fails here."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed, failed


def is_merged(text: Path) -> bool:
    return (text.parent / "out" / "in").read_text() == text.read_text().upper()


def metrics(text: Path) -> dict[str, float]:
    lines = (text.parent / "out" / "run" / "metrics.prom").read_text().splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


def test_workers_that_are_killed_are_replaced(address: str, text: Path) -> None:
    load, killed = Shouting(text.parent / "diary", 0.2), set()

    def kill() -> None:
        for number in (2, 6, 10):
            until(lambda number=number: len(load.begun()) > number and load.begun()[-1][0] not in killed)
            os.kill(victim := load.begun()[-1][0], signal.SIGKILL)
            killed.add(victim)

    with meanwhile(kill):
        shout(text, text.parent / "out", load, Crew(workers=2, ray=True))
    assert is_merged(text)
    begun = Counter(first for _, first in load.begun())
    assert len(begun) == 20
    assert sum(begun.values()) <= 20 + len(killed)  # only what was killed is begun again
    assert len(killed) == 3 == metrics(text)["recoversat_run_workers_replaced_total"]
    assert metrics(text)["recoversat_run_sentences_done"] == 20 * LINES_A_SHARD


def test_the_pool_grows_when_there_is_room(address: str, text: Path) -> None:
    import ray

    other = ray.remote(num_cpus=1)(Counter).remote()  # has one of the two processors of this cluster
    ray.get(other.total.remote())
    load, alone = Shouting(text.parent / "diary", 0.2), set[int]()

    def make_room() -> None:
        until(lambda: len(load.begun()) > 4)
        alone.update(pid for pid, _ in load.begun())
        ray.kill(other)

    with meanwhile(make_room):
        shout(text, text.parent / "out", load, Crew(workers=2, ray=True))
    assert is_merged(text)
    assert len(alone) == 1
    assert len({pid for pid, _ in load.begun()}) == 2
    assert len(load.begun()) == 20


def test_a_shard_that_kills_its_workers_is_set_aside_and_named(address: str, text: Path) -> None:
    text.write_text(text.read_text().replace("line 9\n", "poison\n"))
    load = Shouting(text.parent / "diary", 0.01)
    with pytest.raises(UserError, match=r"(?s)1 shards were set aside.*in, lines 9-12: its worker died"):
        shout(text, text.parent / "out", load, Crew(workers=2, ray=True))
    begun = Counter(first for _, first in load.begun())
    assert begun.pop("line 8") == 3
    assert set(begun.values()) == {1}
    assert len(begun) == 19
    assert sum(shard.is_done for shard in plan_of(text, text.parent / "out").shards()) == 19


def test_a_worker_that_hangs_is_replaced(address: str, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from recoversat.cluster import ray_pool

    monkeypatch.setattr(ray_pool, "_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(ray_pool, "_SLOW", 2)
    load, stopped = Shouting(text.parent / "diary", 0.1), []

    def stop_one() -> None:
        until(lambda: len(load.begun()) > 4)
        stopped.append(load.begun()[-1][0])
        os.kill(stopped[0], signal.SIGSTOP)

    with meanwhile(stop_one):
        shout(text, text.parent / "out", load, Crew(workers=2, ray=True))
    assert is_merged(text)
    os.kill(stopped[0], signal.SIGCONT)
    until(lambda: not psutil.pid_exists(stopped[0]))


def test_a_killed_node_takes_only_its_workers_with_it(address: str, text: Path, tmp_path: Path) -> None:
    import ray

    load = Shouting(text.parent / "diary", 0.5)
    before = sum(node["Alive"] for node in ray.nodes())
    with ray_node(tmp_path, f"--address={address}", "--num-cpus=2", "--node-ip-address=127.0.0.1") as node:
        until(lambda: sum(each["Alive"] for each in ray.nodes()) == before + 1)

        def on_node() -> set[int]:
            return {pid for pid, _ in load.begun() if psutil.pid_exists(pid) and os.getsid(pid) == node.pid}

        def cut() -> None:
            until(on_node)
            kill_node(node)

        with meanwhile(cut):
            shout(text, text.parent / "out", load, Crew(workers=4, ray=True))
    assert is_merged(text)
    assert len({first for _, first in load.begun()}) == 20
    assert len(load.begun()) <= 22


def driver(text: Path, seconds: float, workers: int, address: str) -> "subprocess.Popen[str]":
    command = [sys.executable, DRIVER, text, text.parent / "out", text.parent / "diary", seconds, workers, address]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_a_run_whose_driver_is_killed_is_continued(address: str, text: Path) -> None:
    load, manifest = Shouting(text.parent / "diary", 0.3), plan_of(text, text.parent / "out")

    def done() -> set[str]:
        return {shard.key for shard in manifest.shards() if shard.is_done}

    with driver(text, 0.3, 2, address) as first:
        until(lambda: len(done()) > 4)
        os.killpg(first.pid, signal.SIGKILL)
    until(lambda: not any(psutil.pid_exists(pid) for pid, _ in load.begun()))  # its workers end with it
    finished = {shard.result: shard.result.stat().st_mtime_ns for shard in manifest.shards() if shard.is_done}
    assert 4 < len(finished) < 20
    shout(text, text.parent / "out", load, Crew(workers=2, ray=True))
    assert is_merged(text)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert len(load.begun()) <= 22  # at most what two workers had begun


@pytest.mark.parametrize("by_terminal", [True, False])
def test_a_stop_finishes_what_was_begun(address: str, text: Path, by_terminal: bool) -> None:
    load, manifest = Shouting(text.parent / "diary", 0.5), plan_of(text, text.parent / "out")
    with driver(text, 0.5, 2, "" if by_terminal else address) as process:  # once with a cluster of its own
        until(lambda: len(load.begun()) > 2)
        if by_terminal:
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C goes to all of them
        else:
            process.send_signal(signal.SIGTERM)
        assert process.stderr
        said = process.stderr.read()
    assert "stopping: what was begun is finished first" in said
    assert "of 20 shards are done; the same command continues" in said
    assert sum(shard.is_done for shard in manifest.shards()) == len(load.begun()) < 20
    until(lambda: not any(psutil.pid_exists(pid) for pid, _ in load.begun()))


def test_a_model_that_is_not_there_ends_the_run_at_once(address: str, text: Path) -> None:
    def load() -> object:
        raise UserError("no such model")

    with pytest.raises(UserError, match=r"no such model. 0 of 20 shards are done"):
        shout(text, text.parent / "out", load, Crew(workers=2, ray=True))  # type: ignore[arg-type]


def test_workers_that_die_of_their_model_are_not_replaced_for_ever(address: str, text: Path) -> None:
    def load() -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    with pytest.raises(UserError, match="workers die before they have loaded the model"):
        shout(text, text.parent / "out", load, Crew(workers=1, ray=True))  # type: ignore[arg-type]


def test_a_cluster_that_is_not_there_is_named(recoversat: Run, text: Path) -> None:
    said = recoversat(
        "translate", text, "--out", text.parent / "out", "--cluster", "ray=127.0.0.1:9", "--from", "en", "--to", "de",
        expect=2,
    ).stderr  # fmt: skip
    assert "no Ray cluster at 127.0.0.1:9" in said


def test_distilling_on_a_cluster_writes_the_same_corpus(address: str, tmp_path: Path) -> None:
    corpus, teacher = tmp_path / "corpus", write_tiny_model(tmp_path / "teacher")
    for seed, side in enumerate(("src", "tgt")):
        write_sentences(tmp_path / side, 40, seed)
    pairs = TextPairs(tmp_path / "src", tmp_path / "tgt")
    prepare(pairs, corpus, DataConfig(tokenizer="bpe", max_ratio=100), tokenizer_from=teacher, quiet=True)
    plain = DistillOptions(teacher, corpus, tmp_path / "plain", 1, shard_size=10, device="cpu", quiet=True)
    distill(plain)
    share = replace(plain, out=tmp_path / "shared", shard="2/3")
    assert distill(share) == {}
    assert [path.name for path in share.shards.glob("*.npz")] == ["shard-000001.npz"]
    report = distill(replace(share, shard=None, cluster="ray"))
    assert report["kept"] > 5
    assert "sentences_per_second" not in report  # nothing was left for this process
    assert open_corpus(share.out).fingerprint == open_corpus(plain.out).fingerprint


def test_the_built_in_model_writes_the_same_and_notices_that_its_folder_changes(
    recoversat: Run, address: str, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(builtin_model("en", "de"), model)
    lines = TATOEBA.read_text(encoding="utf-8").splitlines()[:80]
    (tmp_path / "in.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    common = [tmp_path / "in.gz", "--model", model, "--from", "en", "--to", "de", "--batch-size", 1]
    run = [*common, "--out", tmp_path / "out", "--shard-size", 10, "--workers", 2, "--cluster", f"ray={address}"]

    def change() -> None:
        until(lambda: list((tmp_path / "out").rglob("*/??/*.gz")))
        with open(model / "config.json", "a") as stream:
            stream.write("\n")

    with meanwhile(change):
        said = recoversat("translate", *run, expect=2).stderr
    assert "the model is not the one this run began with" in said
    assert "of 5 shards are missing" in recoversat("merge", tmp_path / "out", expect=2).stderr
    assert "write elsewhere\n  model: " in recoversat("translate", *run, expect=2).stderr  # nor is it continued so
    (model / "config.json").write_bytes((builtin_model("en", "de") / "config.json").read_bytes())
    recoversat("translate", *common, "--out", tmp_path / "out", "--shard-size", 10, "--shard", "1/1")  # without Ray
    recoversat("merge", tmp_path / "out")
    recoversat("translate", *common, "--threads", 1, "--out", tmp_path / "plain")
    assert gzip.decompress((tmp_path / "out" / "in.gz").read_bytes()) == (tmp_path / "plain").read_bytes()
