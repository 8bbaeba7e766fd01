"""Files over HTTP, as LibreTranslate has it: sent, translated within limits, fetched by a name nobody can guess."""

import io
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docx
import psutil
import pytest
from starlette.testclient import TestClient

from recoversat.serve.http import files
from tests.unit.serve import bad_documents as bad
from tests.unit.serve.fake_translator import FORK_SERVER, MakeClient, fake_model
from tests.unit.serve.test_connections import listening, until

DATA = Path(__file__).parents[2] / "data" / "documents"
REPORT = (DATA / "report.docx").read_bytes()
EN_DE = {"source": "en", "target": "de"}


def send(client: TestClient, content: bytes | str, name: str = "a.txt", **fields: str) -> Any:
    return client.post("/translate_file", files={"file": (name, content)}, data={**EN_DE, **fields})


def fetched(client: TestClient, answer: Any) -> bytes:
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["translatedFileUrl"]
    return client.get(answer.json()["translatedFileUrl"]).content


def readers() -> list[psutil.Process]:
    """List the processes that read or write a file."""
    return psutil.Process(FORK_SERVER.pid).children() if FORK_SERVER.pid else []


def test_a_file_comes_back_in_its_own_format(client: TestClient) -> None:
    document = docx.Document(io.BytesIO(fetched(client, send(client, REPORT, "My report.docx"))))
    assert document.paragraphs[0].text == "THE OLD HOUSE"
    assert document.tables[0].cell(0, 0).text == "NAME"
    assert fetched(client, send(client, "two dogs.\r\n\r\nthree\n")) == b"TWO DOGS.\r\n\r\nTHREE\n"
    page = fetched(client, send(client, "<p>two <b>big</b> dogs</p>", "Page.HTML"))
    assert page == b"<p>TWO <b>BIG</b> DOGS</p>"


@pytest.mark.parametrize("path", sorted(p for p in DATA.iterdir() if p.name != "README.md"), ids=lambda p: p.suffix)
def test_every_format_on_offer_is_translated(client: TestClient, path: Path) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True
    assert {path.suffix, ".txt"} <= set(settings["supportedFilesFormat"])
    out = fetched(client, send(client, path.read_bytes(), path.name))
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(io.BytesIO(out)) as archive:
            out = b"".join(archive.read(name) for name in archive.namelist())
    assert b"HOUSE" in out or b"THE DISK IS FULL" in out


def test_the_download_says_what_it_is_called_and_is_never_shown_as_a_page(client: TestClient) -> None:
    url = send(client, "<script>two</script>", "ä/../b c.html").json()["translatedFileUrl"]
    assert url.startswith("http://testserver/download_file/")
    answer = client.get(url)
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''b%20c.de.html"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(url.rpartition("/")[2]) > 30
    assert url != send(client, "<script>two</script>", "a.html").json()["translatedFileUrl"]


def test_a_foreign_host_is_not_written_into_anything(client: TestClient) -> None:
    answer = client.post(
        "/translate_file", files={"file": ("a.txt", "two")}, data=EN_DE, headers={"host": "evil.org/<script>"}
    )
    assert "evil" not in answer.text


@pytest.mark.parametrize("name", ["x", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "a" * 10_000])
def test_other_names_find_nothing(client: TestClient, name: str) -> None:
    answer = client.get(f"/download_file/{name}")
    assert answer.status_code == 404
    assert "error" in answer.json()


def test_files_are_forgotten_and_their_number_is_bounded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [send(client, "two").json()["translatedFileUrl"] for _ in range(files._MOST_OF_ONE + 1)]
    assert [client.get(url).status_code for url in urls] == [404] + [200] * files._MOST_OF_ONE
    monkeypatch.setattr(files, "_MOST_HELD", 5)
    full = send(client, "two dogs")
    assert (full.status_code, full.headers["retry-after"]) == (503, "60")
    now = time.monotonic()
    monkeypatch.setattr(files.time, "monotonic", lambda: now + files._HELD_FOR + 1)
    assert client.get(urls[-1]).status_code == 404


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"x" * 3000, "a.txt", "exceeds text limit (2000)"),
        (b"two " * 100, "a.txt", "request (400) exceeds text limit (300)"),
        (b"two\n\n" * 300, "a.md", "request (375) exceeds text limit (300)"),  # it is not even read
        (b"<b>" * 400 + b"<" * 501, "a.html", "request (901) exceeds text limit (900)"),
        (b"two", "a.pdf", "file format not supported"),
        (b"two", "docx", "file format not supported"),
        (b"two", "a.docx", "this is no docx file"),
        (b"\xff", "a.txt", "not UTF-8"),
        (b'msgid "a"', "a.po", "line 1: a message needs a msgid and a msgstr"),
    ],
)
def test_what_is_wrong_is_named(make_client: MakeClient, content: bytes, name: str, message: str) -> None:
    client = make_client(file_limit=2000, file_char_limit=300)
    answer = send(client, content, name)
    assert (answer.status_code, message in answer.json()["error"]) == (400, True), answer.text


def test_fields_are_checked_as_those_of_texts(client: TestClient) -> None:
    def error(answer: Any) -> Any:
        return answer.status_code, answer.json()["error"]

    assert error(send(client, "two", target="zz")) == (400, "zz is not supported")
    assert error(send(client, "two", source="")) == (400, "Invalid request: missing source parameter")
    missing = (400, "Invalid request: missing file parameter")
    assert error(client.post("/translate_file", data=EN_DE)) == missing
    assert error(client.post("/translate_file", data={"file": "two", **EN_DE})) == missing
    assert error(client.post("/translate_file", json={"file": "two", **EN_DE})) == (
        400, "Invalid request: missing source parameter",
    )  # fmt: skip
    assert client.get("/translate_file").status_code == 405


def test_the_language_may_be_found_out_and_may_be_the_same(make_client: MakeClient) -> None:
    client = make_client([fake_model("en", "de"), fake_model("de", "en")])
    english = "The weather is nice today, and the children play in the garden."
    assert fetched(client, send(client, english, source="auto")) == english.upper().encode()
    assert fetched(client, send(client, english, source="en", target="en")) == english.encode()


def test_keys_and_rates_hold_for_files(make_client: MakeClient, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret\n")
    client = make_client(api_keys=tmp_path / "keys", rate_limit=4, char_limit=10)
    assert send(client, "two").status_code == 400
    assert send(client, "two", api_key="wrong").status_code == 403
    answer = send(client, "two dogs in a park", api_key="secret")  # 18 characters count as two requests
    assert fetched(client, answer) == b"TWO DOGS IN A PARK"
    assert send(client, "two dogs in a park in a house", api_key="secret").status_code == 429  # it has been read
    assert send(client, "two", api_key="secret").status_code == 200
    assert send(client, "two", api_key="secret").status_code == 429


def test_what_is_read_in_vain_counts_too(make_client: MakeClient) -> None:
    client = make_client(rate_limit=2)
    assert [send(client, b"two", "a.docx").status_code for _ in range(3)] == [400, 400, 429]


def test_a_file_that_costs_more_than_all_a_minute_has_takes_all_of_it(make_client: MakeClient) -> None:
    client = make_client(rate_limit=2, char_limit=10)
    assert [send(client, "two dogs in a park " * 10).status_code for _ in range(2)] == [200, 429]


def test_a_long_file_is_done_in_parts_so_that_others_take_their_turns(client: TestClient) -> None:
    text = "two dogs run in the park today and sleep.\n" * 200
    assert fetched(client, send(client, text)) == text.upper().encode()
    assert max(sum(map(len, batch)) for batch in client.translator.batches) <= 1000


def test_no_more_files_are_taken_than_there_is_room_for(make_client: MakeClient) -> None:
    client = make_client(batch_size=1)
    client.translator.gate.clear()
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(send(client, "two"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert client.translator.busy.wait(10)
    deadline = time.monotonic() + 10
    while client.service.batcher.waiting < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    refused = send(client, "three")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    client.translator.gate.set()
    for thread in threads:
        thread.join(10)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert send(client, "three").status_code == 200


TOO_SLOW = 400, "Invalid request: the file takes more than 2 seconds to be read or written"
TOO_LARGE = 400, "Invalid request: the file takes more than 50 MiB of memory to be read or written"
FAILED = 500, "Cannot translate file: reading or writing it failed"


@pytest.mark.parametrize(
    ("when", "harm", "settings", "refusal"),
    [
        ("read_document", bad.loop, {"file_seconds": 2.0}, TOO_SLOW),
        ("write_document", bad.doze, {"file_seconds": 2.0}, TOO_SLOW),
        ("read_document", bad.allocate, {"file_memory": 50 << 20}, TOO_LARGE),
        ("write_document", bad.allocate, {"file_memory": 50 << 20}, TOO_LARGE),
        ("read_document", bad.crash, {}, FAILED),
        ("write_document", bad.crash, {}, FAILED),
        ("read_document", bad.fail, {}, FAILED),
    ],
)
def test_a_reader_that_does_harm_costs_its_own_request_only(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, when: str, harm: Any, settings: Any, refusal: Any
) -> None:
    assert send(make_client(), REPORT, "a.docx").status_code == 200
    monkeypatch.setattr(files, when, harm)
    answer = send(make_client(**settings), REPORT, "a.docx")
    assert (answer.status_code, answer.json()["error"]) == refusal
    monkeypatch.undo()
    assert send(make_client(), REPORT, "a.docx").status_code == 200


def test_others_are_answered_while_a_reader_loops(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "read_document", bad.loop)
    with make_client() as client, ThreadPoolExecutor(2) as pool:
        stuck = [pool.submit(send, client, REPORT, "a.docx") for _ in range(2)]
        until(lambda: len(readers()) == 2)
        for _ in range(10):
            assert client.get("/livez").status_code == 200
            text = {"q": "two dogs", **EN_DE}
            assert client.post("/translate", json=text).json() == {"translatedText": "TWO DOGS"}
        assert not any(one.done() for one in stuck)
        for reader in readers():
            reader.kill()
        assert [one.result().status_code for one in stuck] == [400, 400]


def test_two_files_are_read_at_a_time(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "read_document", bad.doze)
    monkeypatch.setattr(files, "_UPLOADS_OF_ONE", 4)
    with make_client() as client, ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(send, client, REPORT, "a.docx") for _ in range(4)]
        for _ in range(2):
            until(lambda: len(readers()) == 2)
            time.sleep(0.2)
            first, second = readers()
            first.kill()
            second.kill()
        assert [one.result().status_code for one in sent] == [400] * 4


def test_who_sends_a_file_and_leaves_ends_its_reader(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(files, "read_document", bad.doze)
    client = make_client()
    form = client.build_request("POST", "/translate_file", files={"file": ("a.docx", REPORT)}, data=EN_DE)
    head = "".join(f"{name}: {value}\r\n" for name, value in form.headers.items())
    with listening(client.app, client.service.settings) as connect, connect() as sender:
        sender.sendall(f"POST /translate_file HTTP/1.1\r\n{head}\r\n".encode() + form.read())
        until(lambda: len(readers()) == 1)
        sender.close()
        until(lambda: not readers())
        until(lambda: "POST /translate_file 499" in caplog.text)


def test_one_file_does_not_fill_the_queue(make_client: MakeClient) -> None:
    client = make_client(queue_size=40)
    text = "two dogs run in the park today and sleep.\n" * 2000  # some 90 parts
    assert fetched(client, send(client, text)) == text.upper().encode()


def test_a_page_says_which_language_it_is_in_now(client: TestClient) -> None:
    page = '<html lang="en"><p>two dogs</p> <p> </p></html>'
    assert fetched(client, send(client, page, "a.html")) == b'<html lang="de"><p>TWO DOGS</p> <p> </p></html>'


def test_a_server_may_take_no_files(make_client: MakeClient) -> None:
    client = make_client(file_limit=0)
    assert send(client, "two").status_code == 404
    settings = client.get("/frontend/settings").json()
    assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])


def test_nothing_is_written_to_disk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a temporary file")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", never)
    assert send(client, b"two\n" + b" " * 1_200_000, "a.html").status_code == 400  # too many characters
    assert fetched(client, send(client, b"<p>two</p><!--" + b" " * 1_200_000 + b"-->", "a.html"))[:10] == b"<p>TWO</p>"
