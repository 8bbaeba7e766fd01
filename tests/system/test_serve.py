"""The server as people run it: its own processes, a real model, a real client, and workers that get killed."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docx
import httpx2
import psutil
import pytest
from libretranslatepy import LibreTranslateAPI

from recoversat.errors import UserError
from recoversat.serve.process.server import serve
from recoversat.serve.settings import ServeSettings
from recoversat.translator import Translator

from .serving import Running, sentence, serving, write_random_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "random")


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, str]:
    """What the model makes of each sentence when nobody serves it."""
    sentences = [sentence(number) for number in range(200)]
    translations = Translator(folder, device="cpu").translate(sentences)
    found = {t.source: t.text for t in translations}
    assert len(set(found.values())) > 50  # else crossed answers would go unnoticed
    return found


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(folder, tmp_path_factory.mktemp("server") / "log", "--workers", "2") as running:
        yield running


def test_the_real_client_of_libretranslate(server: Running, answers: dict[str, str]) -> None:
    client = LibreTranslateAPI(server.address + "/")
    for number in (3, 77, 199):
        assert client.translate(sentence(number), "en", "de") == answers[sentence(number)]
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["de", "en"]}
    detected = client.detect("The weather is nice today, and the children play in the garden.")
    assert detected[0]["language"] == "en"
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate("alpha", "en", "zz")


def test_everything_the_trace_tells_comes_from_the_model(server: Running, folder: Path) -> None:
    text = sentence(123)
    answer = server.post("/translate", q=text, source="en", target="de", trace=3, details=True)
    (own,) = Translator(folder, device="cpu").translate([text], alternatives=3)
    (shown,) = answer["trace"]
    assert (answer["translatedText"], shown["steps"]) == (own.text, own.steps)
    for segment, written in zip(own.segments, shown["segments"], strict=True):
        assert [token["piece"] for token in written["tokens"]][: len(segment.pieces)] == segment.pieces
        assert written["ending"] == segment.ending
    forced = [{"segment": 1, "position": 0, "token": "hotel"}]
    changed = server.post("/translate", q=text, source="en", target="de", trace=0, forced=forced)
    assert changed["trace"][0]["segments"][1]["tokens"][0] == {
        "piece": "hotel", "probability": changed["trace"][0]["segments"][1]["tokens"][0]["probability"],
        "forced": True, "alternatives": [],
    }  # fmt: skip
    assert (
        server.post("/translate", q=text, source="en", target="de", segments=1, details=True)["details"]["segments"]
        == 1
    )


def test_figures_of_all_workers_are_counted(server: Running) -> None:
    def total() -> float:
        lines = [line for line in server.get("/metrics").splitlines() if "recoversat_characters_total" in line]
        return float(lines[-1].split()[-1])

    before = total()
    for _ in range(10):  # a connection each: some go to one worker, some to the other
        server.post("/translate", q="alpha bravo", source="en", target="de")
    assert total() - before == 110


def test_memory_stays_flat(server: Running, answers: dict[str, str]) -> None:
    def ask(number: int) -> None:
        text = sentence(number % 200)
        assert server.post("/translate", q=text, source="en", target="de")["translatedText"] == answers[text]

    def held() -> int:
        return sum(psutil.Process(pid).memory_info().rss for pid in [server.process.pid, *server.workers()])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(200)))
        before = held()
        list(pool.map(ask, range(600)))
    assert held() - before < 16 << 20


def test_what_a_killed_worker_held_is_translated_by_another(server: Running, answers: dict[str, str]) -> None:
    n_clients, stop = 6, threading.Event()
    right, wrong, lost = [0] * n_clients, [0] * n_clients, [0] * n_clients

    def client(me: int) -> None:
        number = me
        while not stop.is_set():
            text, number = sentence(number % 200), number + n_clients
            try:
                found = server.post("/translate", q=text, source="en", target="de")["translatedText"]
            except (urllib.error.URLError, ConnectionError):
                lost[me] += 1
            else:
                right[me] += found == answers[text]
                wrong[me] += found != answers[text]
            time.sleep(0.01)  # leave the new worker some time to start

    threads = [threading.Thread(target=client, args=(me,)) for me in range(n_clients)]
    for thread in threads:
        thread.start()
    until(lambda: sum(right) > 50)
    first, second = server.workers()
    os.kill(first, signal.SIGKILL)
    served = sum(right)
    until(lambda: sum(right) > served + 50)  # the other one goes on
    until(lambda: "is ready" in server.log.read_text())  # and soon they are two again
    stop.set()
    for thread in threads:
        thread.join()
    assert len(server.workers()) == 2
    assert second in server.workers()
    assert f"worker {first} ended with -9" in server.log.read_text()
    assert sum(wrong) == 0
    assert sum(lost) == 0


def test_a_signal_lets_requests_finish_and_refuses_new_ones(folder: Path, tmp_path: Path) -> None:
    # The long window keeps the request in the queue when the signal comes.
    with serving(folder, tmp_path / "log", "--batch-window", "30000") as server, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.post, "/translate", q="alpha bravo", source="en", target="de")
        until(lambda: "recoversat_requests_in_progress 2.0" in server.get("/metrics"))
        server.process.send_signal(signal.SIGTERM)
        assert waiting.result(20)["translatedText"]
        assert server.process.wait(20) == 0
        with pytest.raises(urllib.error.URLError, match="refused"):
            server.get("/health")
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert "alpha" not in log


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"models": ("nowhere",)}, "nowhere: no such model folder"),
        ({"models": ("english=x",)}, "write it like en-de=FOLDER"),
        ({"compute_type": "int4"}, "unknown compute type 'int4'; choose default, int8"),
        ({"api_keys": Path("nokeys")}, "--api-keys nokeys: No such file"),
        ({"port": "taken"}, "choose another --host or --port"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(folder: Path, wrong: dict[str, Any], message: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        if "port" in wrong:
            wrong = {"port": taken.getsockname()[1]}
        with pytest.raises(UserError, match=re.escape(message)):
            serve(ServeSettings(**({"models": (str(folder),)} | wrong)))


def test_models_that_do_not_fit_into_the_memory_are_refused(folder: Path) -> None:
    options = ["--model", str(folder), "--max-memory", "9M", "--port", "0"]
    command = [sys.executable, "-m", "recoversat", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "error: --max-memory: a worker holds" in done.stderr
    assert "Traceback" not in done.stderr


def test_serving_needs_no_torch() -> None:
    code = "import sys, recoversat.serve.http.app, recoversat.serve.process.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def until(condition: object, seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_an_exported_model_is_served_without_torch(folder: Path, answers: dict[str, str], tmp_path: Path) -> None:
    exported = tmp_path / "exported"
    command = [sys.executable, "-m", "recoversat", "export", str(folder), str(exported), "--precision", "fp32"]
    subprocess.run(command, check=True, capture_output=True)
    with serving(exported, tmp_path / "log") as running:
        sentences = list(answers)[:40]
        assert running.post("/translate", q=sentences, source="en", target="de")["translatedText"] == [
            answers[text] for text in sentences
        ]
        assert running.workers()
        for worker in running.workers():
            assert "libtorch" not in Path(f"/proc/{worker}/maps").read_text()


def test_a_file_travels_through_a_worker_and_back(server: Running, answers: dict[str, str]) -> None:
    text, (paragraph, cell) = sentence(3), (sentence(77), sentence(199))
    document = docx.Document()
    document.add_paragraph(paragraph).add_run(".")
    document.add_table(1, 1).cell(0, 0).text = cell
    packed = io.BytesIO()
    document.save(packed)
    for name, content in (("a.txt", f"{text}\n\n{text}\n".encode()), ("a.docx", packed.getvalue())):
        form = {"source": "en", "target": "de"}
        told = httpx2.post(f"{server.address}/translate_file", files={"file": (name, content)}, data=form, timeout=60)
        out = httpx2.get(told.json()["translatedFileUrl"]).content
        if name == "a.txt":
            assert out.decode() == f"{answers[text]}\n\n{answers[text]}\n"
        else:
            assert docx.Document(io.BytesIO(out)).tables[0].cell(0, 0).text == answers[cell]
    assert " en-de 1 file " in server.log.read_text()
    assert text not in server.log.read_text()


def test_limits_of_files_are_options(folder: Path, tmp_path: Path) -> None:
    with serving(folder, tmp_path / "log", "--file-limit", "50", "--file-char-limit", "5") as server:
        for content, limit in (("x" * 60, 50), ("alpha bravo", 5)):
            told = httpx2.post(
                f"{server.address}/translate_file",
                files={"file": ("a.txt", content)},
                data={"source": "en", "target": "de"},
            )
            assert (told.status_code, f"exceeds text limit ({limit})" in told.text) == (400, True)
