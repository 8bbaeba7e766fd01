"""Under load: batches, the bounded queue, deadlines, keys and rates."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from recoversat.errors import UserError
from recoversat.serve.http.api_keys import find_api_key, read_api_keys
from recoversat.serve.http.rate_limit import RateLimiter, network_of
from tests.unit.serve.fake_translator import MakeClient

EN_DE = {"source": "en", "target": "de"}


def ask(client: TestClient, q: str) -> Any:
    return client.post("/translate", json={"q": q, **EN_DE})


def occupied(client: TestClient, pool: ThreadPoolExecutor) -> Any:
    """Keep the decoding thread busy with one request until the gate opens."""
    translator = client.translator  # type: ignore[attr-defined]
    translator.gate.clear()
    first = pool.submit(ask, client, "men")
    assert translator.busy.wait(30)
    return first


def until(client: TestClient, waiting: int) -> None:
    end = time.monotonic() + 30
    while client.service.batcher.waiting < waiting:  # type: ignore[attr-defined]
        assert time.monotonic() < end
        time.sleep(0.005)


def test_requests_that_wait_together_are_translated_together(client: TestClient) -> None:
    texts = ["two dogs run in the park", "cats", "big red house", "women sleep"]
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        others = [pool.submit(ask, client, text) for text in texts]
        until(client, 4)
        client.translator.gate.set()  # type: ignore[attr-defined]
        assert first.result().json() == {"translatedText": "MEN"}
        assert [other.result().json()["translatedText"] for other in others] == [text.upper() for text in texts]
    batches = client.translator.batches  # type: ignore[attr-defined]
    assert batches == [["men"], sorted(texts, key=len)]


def test_a_short_text_need_not_wait_for_all_of_a_long_one(client: TestClient) -> None:
    lines = [f"dogs {number} run\n" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        long = pool.submit(ask, client, "".join(lines))
        until(client, 5)
        short = pool.submit(client.post, "/translate", json={"q": "cats", **EN_DE})
        until(client, 6)
        client.translator.gate.set()  # type: ignore[attr-defined]
        assert long.result().json()["translatedText"] == "".join(lines).upper()
        assert short.result().json()["translatedText"] == "CATS"
        assert first.result().status_code == 200
    sizes = [len(batch) for batch in client.translator.batches]  # type: ignore[attr-defined]
    assert len(sizes) >= 6
    assert max(sizes) < 100


def test_a_full_queue_is_told_at_once(make_client: MakeClient) -> None:
    client = make_client(queue_size=2)
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        waiting = [pool.submit(ask, client, "cats") for _ in range(2)]
        until(client, 2)
        refused = ask(client, "women")
        assert refused.status_code == 503
        assert refused.json() == {"error": "Too busy: try again later"}
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        client.translator.gate.set()  # type: ignore[attr-defined]
        assert [answer.result().status_code for answer in [first, *waiting]] == [200] * 3
    assert ask(client, "women").status_code == 200


def test_a_request_past_its_deadline_is_given_up_and_never_translated(make_client: MakeClient) -> None:
    client = make_client(timeout=0.5)
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        late = ask(client, "cats")
        assert late.status_code == 503
        assert late.json() == {"error": "Timed out after 0.5 seconds: try again later"}
        assert first.result().status_code == 503
        client.translator.gate.set()  # type: ignore[attr-defined]
    service = client.service  # type: ignore[attr-defined]
    service.settings = replace(service.settings, timeout=30.0)  # this one may take its time
    assert ask(client, "women").status_code == 200
    assert client.translator.batches == [["men"], ["women"]]  # type: ignore[attr-defined]


def call(client: TestClient, *messages: dict[str, Any]) -> int:
    """Call the app itself with these messages from a client, the last one again and again; return its status."""
    scope = {"type": "http", "method": "POST", "path": "/translate", "raw_path": b"/translate", "query_string": b"",
             "headers": [(b"content-type", b"application/json")], "client": ("10.0.0.1", 1)}  # fmt: skip
    incoming, statuses = list(messages), []

    async def receive() -> dict[str, Any]:
        if len(incoming) == 1 and incoming[0]["type"] == "http.request":
            await asyncio.sleep(60)
        return incoming.pop(0) if len(incoming) > 1 else incoming[0]

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    return int(statuses[0])


def test_nobody_translates_for_a_client_that_has_left(client: TestClient) -> None:
    body = b'{"q": "cats", "source": "en", "target": "de"}'
    with ThreadPoolExecutor(8) as pool:
        occupied(client, pool)
        asked, left = {"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}
        assert call(client, asked, left) == 499
        assert call(client, {"type": "http.request", "body": body[:9], "more_body": True}, left) == 499
        client.translator.gate.set()  # type: ignore[attr-defined]
    ask(client, "women")
    assert client.translator.batches == [["men"], ["women"]]  # type: ignore[attr-defined]


def test_a_body_that_never_ends_is_given_up(make_client: MakeClient) -> None:
    client = make_client(timeout=0.1)
    first = {"type": "http.request", "body": b"{", "more_body": True}
    assert call(client, first, {"type": "http.request", "body": b"", "more_body": True}) == 400


def test_a_crowd_is_refused_before_its_texts_are_read(make_client: MakeClient) -> None:
    client = make_client(queue_size=1)
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        second = pool.submit(ask, client, "cats")
        until(client, 1)
        body_never_read = {"type": "http.request", "body": b"", "more_body": True}
        assert call(client, body_never_read) == 503
        client.translator.gate.set()  # type: ignore[attr-defined]
        assert [answer.result().status_code for answer in (first, second)] == [200, 200]


def test_while_shutting_down_running_requests_finish_and_new_ones_are_refused(client: TestClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        waiting = pool.submit(ask, client, "cats")
        until(client, 1)
        client.service.drain()  # type: ignore[attr-defined]
        refused = ask(client, "women")
        assert (refused.status_code, refused.json()) == (503, {"error": "The server is shutting down"})
        assert client.get("/health").status_code == 503
        client.translator.gate.set()  # type: ignore[attr-defined]
        assert [answer.result().status_code for answer in (first, waiting)] == [200, 200]


def test_the_last_answers_on_a_connection_say_that_it_is_closed(client: TestClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        first = occupied(client, pool)
        client.service.drain()  # type: ignore[attr-defined]
        assert ask(client, "women").headers.get_list("connection") == ["close"]
        client.translator.gate.set()  # type: ignore[attr-defined]
        assert first.result().headers.get_list("connection") == ["close"]


def test_a_request_that_is_still_arriving_when_the_server_stops_is_answered(client: TestClient) -> None:
    def body() -> Iterator[bytes]:
        yield b'{"q": "cats", '
        client.service.drain()  # type: ignore[attr-defined]
        yield b'"source": "en", "target": "de"}'

    answer = client.post("/translate", content=body(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "CATS"})
    assert ask(client, "women").status_code == 503


def test_figures_for_prometheus(client: TestClient) -> None:
    ask(client, "two dogs. Three cats.")
    ask(client, "")
    client.get("/x" * 10)
    figures = client.get("/metrics").text
    for line in (
        'recoversat_requests_total{path="/translate",status="200"} 1.0',
        'recoversat_requests_total{path="/translate",status="400"} 1.0',
        'recoversat_requests_total{path="other",status="404"} 1.0',
        'recoversat_request_seconds_count{path="/translate"} 2.0',
        "recoversat_batch_size_sum 1.0",
        "recoversat_sentences_total 2.0",
        "recoversat_decoding_steps_total 4.0",
        "recoversat_characters_total 21.0",
        "recoversat_queue_length 0.0",
    ):
        assert line in figures.splitlines(), line


def test_keys_are_asked_for_and_checked(make_client: MakeClient, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# ours\nalpha\nbeta 1  # slow\n")
    client = make_client(api_keys=keys, rate_limit=60)

    def status(**fields: Any) -> tuple[int, str]:
        answer = client.post("/translate", json={"q": "men", **EN_DE, **fields})
        return answer.status_code, answer.json().get("error", "")

    assert status() == (400, "Please contact the server operator to get an API key")
    assert status(api_key="gamma") == (403, "Invalid API key")
    assert status(api_key=["alpha"])[0] == 400
    assert status(api_key="alpha") == (200, "")
    assert status(api_key="beta") == (200, "")
    assert status(api_key="beta") == (429, "Slowdown: 1 per 1 minute")
    assert status(api_key="alpha") == (200, "")
    assert client.post("/detect", data={"q": "men"}).status_code == 400
    bearer = client.post("/detect", data={"q": "men"}, headers={"authorization": "Bearer alpha"})
    assert bearer.status_code == 200
    assert client.get("/languages").status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_rates_are_counted_for_each_address(make_client: MakeClient) -> None:
    client = make_client(rate_limit=3)
    assert [ask(client, "men").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    slow = ask(client, "men")
    assert slow.json() == {"error": "Slowdown: 3 per 1 minute"}
    assert 1 <= int(slow.headers["retry-after"]) <= 21


def test_the_rate_table_is_bounded_and_forgives() -> None:
    limiter = RateLimiter(most=64)
    assert [limiter.wait_time("me", 2, now=100.0) for _ in range(2)] == [0, 0]
    assert limiter.wait_time("me", 2, now=100.0) == pytest.approx(30)
    assert limiter.wait_time("you", 2, now=100.0) == 0
    assert limiter.wait_time("me", 2, now=130.5) == 0
    for i in range(1000):
        limiter.wait_time(f"caller {i}", 2, now=200.0)
    assert len(limiter._whole_at) == 64
    assert find_api_key([], "x") is None


def test_what_costs_several_requests_is_counted_so_and_never_refused_for_good() -> None:
    limiter = RateLimiter()
    assert limiter.wait_time("me", 10, cost=8, now=0.0) == 0
    assert limiter.wait_time("me", 10, cost=8, now=0.0) == pytest.approx(36)
    assert limiter.wait_time("me", 10, cost=500, now=48.0) == 0  # all there is
    assert limiter.wait_time("me", 10, now=48.0) == pytest.approx(6)


def test_a_clock_set_back_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = RateLimiter()
    limiter.wait_time("me", 1)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert limiter.wait_time("me", 1) <= 60


def test_each_address_of_the_old_kind_has_its_own_allowance_on_a_socket_of_both() -> None:
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1" != network_of("::ffff:10.0.0.2")
    assert network_of("2001:db8::1") == network_of("2001:db8::2") != network_of("2001:db9::1")


@pytest.mark.parametrize("text", ["", "# nothing\n", "key two words\n", "key 0\n"])
def test_a_bad_file_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(UserError, match="keys"):
        read_api_keys(path)


def test_a_server_without_workers_is_alive_but_not_ready(client: TestClient) -> None:
    assert [client.get(path).status_code for path in ("/health", "/readyz", "/livez")] == [200, 200, 200]
    client.service.batcher.close(timeout=30)  # type: ignore[attr-defined]
    assert [client.get(path).status_code for path in ("/health", "/readyz", "/livez")] == [503, 503, 200]
    assert "No worker translates" in client.get("/health").json()["error"]


def test_a_list_and_alternatives_cost_as_many_requests(make_client: MakeClient) -> None:
    client = make_client(rate_limit=10)

    def status(**fields: Any) -> int:
        return int(client.post("/translate", json={"q": "men", **EN_DE, **fields}).status_code)

    assert status(q=["men"] * 6) == 200
    assert status(q=["men"] * 6) == 429
    assert status(alternatives=2) == 200
    assert [status(), status()] == [200, 429]


def test_guessing_keys_is_slowed_down(make_client: MakeClient, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("alpha\n")
    client = make_client(api_keys=tmp_path / "keys")

    def status(key: str) -> int:
        return int(client.post("/translate", json={"q": "men", **EN_DE, "api_key": key}).status_code)

    assert status("alpha") == 200
    assert [status(f"guess {i}") for i in range(12)] == [403] * 10 + [429] * 2
    assert status("alpha") == 429  # else the right guess would stand out


def test_figures_are_for_those_who_may_see_them(make_client: MakeClient, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("alpha\n")
    guarded = make_client(metrics_token="secret")
    keyed = make_client(api_keys=tmp_path / "keys")

    def status(client: TestClient, token: str = "") -> int:
        return int(client.get("/metrics", headers={"authorization": f"Bearer {token}"} if token else {}).status_code)

    assert [status(guarded), status(guarded, "x"), status(guarded, "secret")] == [403, 403, 200]
    assert [status(keyed), status(keyed, "x"), status(keyed, "alpha")] == [400, 403, 200]


def test_a_text_with_too_many_pieces_is_refused_before_the_model_sees_it(make_client: MakeClient) -> None:
    client = make_client(piece_limit=20)
    words = "dogs " * 8
    assert ask(client, words).status_code == 200
    more = client.post("/translate", json={"q": words, **EN_DE, "alternatives": 2})
    assert more.status_code == 400
    assert "pieces to be written, at most 20; shorten the text or ask for fewer alternatives" in more.json()["error"]
    assert len(client.translator.batches) == 1  # type: ignore[attr-defined]
