"""LibreTranslate's protocol: every way to ask, every answer and every refusal."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from recoversat.serve.http.messages import TranslateRequest
from tests.unit.serve.fake_translator import MakeClient, fake_model

EN_DE = {"source": "en", "target": "de"}


def translate(client: TestClient, **fields: Any) -> Any:
    return client.post("/translate", json={**EN_DE, **fields})


@pytest.mark.parametrize("how", ["json", "data", "params", "multipart"])
def test_a_text_may_come_as_json_form_query_or_multipart(client: TestClient, how: str) -> None:
    fields = {"q": "Two dogs & cats, äöü 你好", **EN_DE}
    sent = {"files": {name: (None, value) for name, value in fields.items()}} if how == "multipart" else {how: fields}
    answer = client.post("/translate", **sent)
    assert answer.status_code == 200
    assert answer.json() == {"translatedText": "TWO DOGS & CATS, ÄÖÜ 你好"}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"


def test_a_list_comes_back_as_a_list_in_its_order(client: TestClient) -> None:
    texts = ["three", "a b c d e f g", "", "  ", "two\n\nlines ", "three"]
    answer = translate(client, q=texts)
    assert answer.json() == {"translatedText": ["THREE", "A B C D E F G", "", "  ", "TWO\n\nLINES ", "THREE"]}
    assert client.post("/translate", data={"q": ["one", "two"], **EN_DE}).json() == {"translatedText": ["ONE", "TWO"]}


def test_auto_tells_what_it_detected(make_client: MakeClient) -> None:
    client = make_client([fake_model("en", "de"), fake_model("de", "en")])
    english, german = "Two dogs run through the park this morning.", "Zwei Hunde laufen heute Morgen durch den Park."
    one = client.post("/translate", json={"q": english, "source": "auto", "target": "de"}).json()
    assert one["translatedText"] == english.upper()
    assert one["detectedLanguage"]["language"] == "en"
    assert one["detectedLanguage"]["confidence"] > 90
    both = client.post("/translate", json={"q": [english, german], "source": "auto", "target": "de"}).json()
    assert both["translatedText"] == [english.upper(), german]  # German is German already
    assert [found["language"] for found in both["detectedLanguage"]] == ["en", "de"]
    ranked = client.post("/detect", data={"q": german}).json()
    assert [found["language"] for found in ranked] == ["de", "en"]
    assert ranked[0]["confidence"] > 90


def test_case_and_region_of_a_language_are_forgiven(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    client = make_client([fake_model("en", "de"), fake_model("pt-BR", "en")])
    with caplog.at_level(logging.INFO):
        for source, target in (("EN", "de"), ("en_US", "DE-at"), ("en-my secret", "de"), ("pt-br", "EN")):
            assert translate(client, q="two", source=source, target=target).json() == {"translatedText": "TWO"}
        assert translate(client, q="two", source="en-GB", target="en").json() == {"translatedText": "two"}
    assert "secret" not in caplog.text
    assert translate(client, q="two", source="pt-PT").json() == {"error": "pt-PT is not supported"}


def test_html_keeps_its_tags(client: TestClient) -> None:
    answer = translate(client, q='<p class="x">two <b>dogs</b></p><script>run()</script>', format="html")
    assert answer.json()["translatedText"] == '<p class="x">TWO <b>DOGS</b></p><script>run()</script>'


def test_a_tag_in_doubt_goes_where_the_model_says(client: TestClient) -> None:
    answer = translate(client, q="the <b>dogs</b> and dogs", format="html")  # the fake says: the first word
    assert answer.json()["translatedText"] == "<b>THE</b> DOGS AND DOGS"


def test_alternatives_are_other_translations(client: TestClient) -> None:
    answer = translate(client, q="two dogs run", alternatives=2).json()
    assert answer["translatedText"] == "TWO DOGS RUN"
    assert len(answer["alternatives"]) == 2
    assert "TWO DOGS RUN" not in answer["alternatives"]
    listed = translate(client, q=["two dogs run", ""], alternatives=1).json()
    assert [len(others) for others in listed["alternatives"]] == [1, 0]
    assert "alternatives" not in translate(client, q="two dogs run", alternatives=0).json()
    assert "alternatives" not in translate(client, q="two dogs run", alternatives=-1).json()
    for two in ("2", 2.0):
        assert translate(client, q="two dogs run", alternatives=two).json() == answer


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": "a", "source": ""}, "Invalid request: missing source parameter"),
        ({"q": "a", "target": None}, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "zz"}, "zz is not supported"),
        ({"q": "a", "target": "zz"}, "zz is not supported"),
        ({"q": "a", "format": "pdf"}, "pdf format is not supported"),
        ({"q": "a", "format": 1000 * "x"}, f"{20 * 'x'} format is not supported"),
        ({"q": "a", "source": "de", "target": "en"},
         "English (en) is not available as a target language from German (de)"),
        ({"q": 7}, "Invalid request: q"),
        ({"q": ["a", 7]}, "Invalid request: q"),
        ({"q": "a", "alternatives": "many"}, "Invalid request: alternatives"),
        ({"q": "a", "alternatives": 1.5}, "Invalid request: alternatives"),
        ({"q": "a", "target": "z" * 90_000}, f"{'z' * 40} is not supported"),
        ({"q": "a", "segments": 11}, "Invalid request: segments: this model writes 1 to 10 segments"),
        ({"q": "a", "segments": 0}, "Invalid request: segments"),
        ({"q": ["a", "x" * 31]}, "Invalid request: request (31) exceeds text limit (30)"),
        ({"q": ["a"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
    ],
)  # fmt: skip
def test_refusals_speak_like_libretranslate(make_client: MakeClient, fields: dict[str, Any], message: str) -> None:
    answer = translate(make_client(char_limit=30, text_limit=3), **fields)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(message)
    assert list(answer.json()) == ["error"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"q"', b"", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


def test_a_huge_body_is_not_read_to_its_end(make_client: MakeClient) -> None:
    client = make_client(char_limit=10)
    answer = client.post("/translate", content=b" " * 200_000, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "exceeds text limit" in answer.json()["error"]


def test_the_limit_of_characters_is_for_each_text(make_client: MakeClient) -> None:
    client = make_client(char_limit=10)
    assert translate(client, q=["nine char"] * 5).status_code == 200


def test_a_charset_that_does_not_exist_is_refused(client: TestClient) -> None:
    kind = "multipart/form-data; boundary=x; charset=undefined"
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\ntwo\r\n--x--\r\n'
    answer = client.post("/translate", content=body, headers={"content-type": kind})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid form"})


def test_lines_of_a_form_end_as_everywhere_else(client: TestClient) -> None:
    answer = client.post("/translate", data={"q": "two\r\ndogs", **EN_DE})
    assert answer.json() == {"translatedText": "TWO\nDOGS"}
    assert translate(client, q="two\r\ndogs").json() == {"translatedText": "TWO\r\nDOGS"}


def test_head_is_get_and_no_redirect_names_a_foreign_host(client: TestClient) -> None:
    assert client.head("/languages").status_code == 200
    assert client.head("/translate").status_code == 405
    answer = client.get("/languages/", headers={"host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_suggestions_are_taken_only_on_request(make_client: MakeClient, tmp_path: Path) -> None:
    better = {"q": "two dogs", "s": "zwei Hunde", **EN_DE}
    assert make_client().post("/suggest", json=better).status_code == 404
    client = make_client(suggestions=tmp_path / "suggested")
    assert client.get("/frontend/settings").json()["suggestions"] is True
    assert client.post("/suggest", data=better).json() == {"success": True}
    assert client.post("/suggest", json={"q": "x"}).json() == {"error": "Invalid request: missing s parameter"}
    assert json.loads((tmp_path / "suggested").read_text()) == better


def test_half_a_surrogate_pair_does_no_harm(client: TestClient) -> None:
    body = b'{"q": "a \\ud83d b \\ud83d\\ude00", "source": "en", "target": "de"}'
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.json()["translatedText"] == "A \ufffd B 😀"


def test_wrong_method_and_unknown_page(client: TestClient) -> None:
    assert (client.get("/translate").status_code, client.get("/translate").json()) == (
        405,
        {"error": "Method Not Allowed"},
    )
    assert (client.get("/nothing").status_code, client.get("/nothing").json()) == (404, {"error": "Not Found"})
    preflight = client.options("/translate", headers={"origin": "http://x", "access-control-request-method": "POST"})
    assert preflight.status_code == 204
    assert "POST" in preflight.headers["access-control-allow-methods"]


def test_information(make_client: MakeClient) -> None:
    client = make_client([fake_model("en", "de"), fake_model("en", "de", choices=1, k=1), fake_model("de", "fr")])
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "de", "name": "German", "targets": ["de", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]
    settings = client.get("/frontend/settings").json()
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert (settings["charLimit"], settings["keyRequired"]) == (10_000, False)
    models = client.get("/models").json()
    assert models[0] == {
        "source": "en", "target": "de", "segments": 4, "max_segments": 10, "choices": [4], "autoregressive": True,
    }  # fmt: skip
    assert models[1]["autoregressive"] is False


def test_an_internal_error_harms_only_its_own_text_and_tells_no_text(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = translate(client, q=["two dogs", "poison"])
        assert (answer.status_code, answer.json()) == (500, {"error": "Cannot translate text: internal error"})
        assert translate(client, q="two dogs").json() == {"translatedText": "TWO DOGS"}
    assert "internal error: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_texts_are_logged_only_on_request(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        client = make_client()
        client.post("/translate", params={"q": "two confidential dogs", **EN_DE})
        client.get("/confidential")
        translate(client, q="confidential", source="zz")
        translate(make_client(log_text=True), q="two public dogs")
    # The test's own client logs addresses too: only the server's lines count.
    lines = [record.getMessage() for record in caplog.records if record.name.startswith(("recoversat", "uvicorn"))]
    assert [re.sub(r"\d+ ms", "0 ms", line) for line in lines] == [
        "POST /translate 200 0 ms en-de 1 texts 21 characters",
        "GET other 404 0 ms",
        "POST /translate 400 0 ms",
        "POST /translate 200 0 ms en-de 1 texts 15 characters ['two public dogs'] -> ['TWO PUBLIC DOGS']",
    ]


def test_a_list_of_what_is_no_text_gets_one_complaint() -> None:
    with pytest.raises(ValidationError) as refused:
        TranslateRequest.model_validate({"q": [1] * 1000, "source": "en", "target": "de"})
    assert refused.value.error_count() == 2  # it is neither a text nor a list of texts
