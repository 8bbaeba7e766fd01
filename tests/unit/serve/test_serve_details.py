"""Our own fields: K, steps, score, the trace and forced tokens; never there unless asked for."""

import json
import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from recoversat.inference.translation import Translation
from recoversat.serve.work.translating import Outcome
from tests.unit.serve.fake_translator import MakeClient, fake_model

SENTENCE = "two dogs run in the park"
FORCED = {"segment": 0, "position": 1, "token": "BIG"}


def ask(client: TestClient, q: Any = SENTENCE, **fields: Any) -> Any:
    return client.post("/translate", json={"q": q, "source": "en", "target": "de", **fields})


def written(segment: dict[str, Any]) -> str:
    return " ".join(token["piece"] for token in segment["tokens"])


def test_details_tell_how_it_was_translated(client: TestClient) -> None:
    answer = ask(client, segments=3.0, details=True).json()  # to JSON a whole number
    assert sorted(answer) == ["details", "translatedText"]
    details = answer["details"]
    assert (details["segments"], details["steps"], details["split"]) == (3, 3, 0)
    assert details["milliseconds"] > 0
    assert -1.2 < details["score"] < -0.05
    assert [d["steps"] for d in ask(client, [SENTENCE, ""], segments=3, details=True).json()["details"]] == [3, 0]


def test_the_trace_shows_segments_endings_and_alternatives(client: TestClient) -> None:
    (sentence,) = ask(client, segments=4, trace=2).json()["trace"]
    assert sentence["source"] == SENTENCE
    assert [written(segment) for segment in sentence["segments"]] == [
        "TWO DOGS </s>", "RUN IN </s>", "THE PARK </s>", "PARK <del>",
    ]  # fmt: skip
    assert [segment["ending"] for segment in sentence["segments"]] == ["eos", "eos", "eos", "del"]
    first = sentence["segments"][0]["tokens"][0]
    assert (first["piece"], first["forced"]) == ("TWO", False)
    assert first["probability"] == pytest.approx(0.951, abs=1e-3)
    assert [other["piece"] for other in first["alternatives"]] == ["TWO", "THE"]


def test_a_text_of_several_sentences_has_several_traces(client: TestClient) -> None:
    answer = ask(client, "two dogs. Three cats!\nmen", trace=0, segments=2).json()
    assert answer["translatedText"] == "TWO DOGS. THREE CATS!\nMEN"
    assert [sentence["source"] for sentence in answer["trace"]] == ["two dogs.", "Three cats!", "men"]
    assert answer["trace"][0]["segments"][0]["tokens"][0]["alternatives"] == []


def test_a_forced_token_stands_and_the_others_adapt(client: TestClient) -> None:
    forced = [{"segment": 0, "position": 1, "token": "BIG"}]
    answer = ask(client, segments=3, trace=1, forced=forced).json()
    (sentence,) = answer["trace"]
    assert [written(segment) for segment in sentence["segments"]] == [
        "TWO BIG </s>", "DOGS RUN </s>", "IN THE PARK </s>",
    ]  # fmt: skip
    assert [token["forced"] for token in sentence["segments"][0]["tokens"]] == [False, True, False]
    assert answer["translatedText"] == "TWO BIG DOGS RUN IN THE PARK"


def test_tags_make_no_sentences(client: TestClient) -> None:
    forced = [{"sentence": 0, "segment": 0, "position": 1, "token": "BIG"}]
    answer = ask(client, "<p>two <b>dogs</b> run</p>", format="html", segments=1, trace=1, forced=forced).json()
    assert len(answer["trace"]) == 1
    assert answer["translatedText"] == "<p><b>TWO</b> BIG</p>"
    wrong = ask(client, "two <b>dogs</b> run", format="html", segments=1, forced=[forced[0] | {"sentence": 1}]).json()
    assert "this text has 1 sentences" in wrong["error"]


def test_only_the_named_sentence_is_forced(client: TestClient) -> None:
    forced = [{"sentence": 1, "segment": 0, "position": 0, "token": "BIG"}]
    answer = ask(client, "men run. Women run.", segments=1, forced=forced).json()
    assert answer == {"translatedText": "MEN RUN. BIG"}


@pytest.mark.parametrize(
    ("forced", "message"),
    [
        ({"segment": 0, "position": 0, "token": "zebra"}, "'zebra' is no token of this model"),
        ({"segment": 0, "position": 0, "token": "<unk>"}, "'<unk>' is no token of this model"),
        ({"segment": 7, "position": 0, "token": "BIG"}, "segment 7 of 4, counted from 0"),
        ({"sentence": 3, "segment": 0, "position": 0, "token": "BIG"}, "this text has 1 sentences, counted from 0"),
        ({"segment": -1, "position": 0, "token": "BIG"}, "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_forced_is_refused(client: TestClient, forced: dict[str, Any], message: str) -> None:
    answer = ask(client, forced=[forced])
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_one_segment_goes_to_the_teacher(make_client: MakeClient) -> None:
    student, teacher = fake_model(), fake_model(k=1, choices=1)
    client = make_client([student, teacher])
    ask(client, segments=1)
    assert (len(student.translator.batches), len(teacher.translator.batches)) == (0, 1)
    ask(client)
    assert (len(student.translator.batches), len(teacher.translator.batches)) == (1, 1)


@pytest.mark.parametrize("how", ["json", "data"])
def test_auto_leaves_k_to_the_length(make_client: MakeClient, how: str) -> None:
    student, teacher = fake_model(choices=[1, 2, 4]), fake_model(k=1, choices=1)
    client = make_client([student, teacher])
    asked = {"q": SENTENCE, "source": "en", "target": "de", "segments": "auto", "trace": 0}
    answer = client.post("/translate", **{how: asked})
    assert answer.json() == ask(client, trace=0).json()
    assert student.translator.wanted == ["auto", None]  # by length, and as the model is set
    assert ask(client, segments=2.0, trace=0).json() == ask(client, segments=2, trace=0).json()


NO_K = "Invalid request: segments: {} is neither a whole number from 1 nor auto"


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ("many", "'many'"), ("6,10", "'6,10'"), ([], "'[]'"), (0, "'0'"), ([4], "'[4]'"),
        (2.5, "'2.5'"), (True, "'True'"), ("9" * 5000 + "x", repr("9" * 40)),
    ],
)  # fmt: skip
def test_what_is_no_k_is_refused_as_on_the_command_line(client: TestClient, segments: Any, said: str) -> None:
    answer = ask(client, segments=segments)
    assert (answer.status_code, answer.json()) == (400, {"error": NO_K.format(said)})


def test_a_token_is_forced_where_k_is_known(make_client: MakeClient) -> None:
    forced = [{"segment": 0, "position": 0, "token": "BIG"}]
    several, one = make_client([fake_model(choices=[1, 2, 4])]), make_client([fake_model(choices=[4])])
    refused = ask(several, segments="auto", forced=forced)
    assert (refused.status_code, refused.json()["error"]) == (
        400, "Invalid request: segments: a forced token names its segment; give a number, not auto",
    )  # fmt: skip
    assert ask(one, segments="auto", forced=forced).json() == ask(one, segments=4, forced=forced).json()


def test_a_sentence_too_long_is_split_and_it_is_told(client: TestClient) -> None:
    long = " ".join(["dogs"] * 60)
    answer = ask(client, long, details=True).json()
    assert answer["translatedText"] == long.upper()
    assert answer["details"]["split"] == 1


def test_what_is_forced_stays_forced_in_the_alternatives(client: TestClient) -> None:
    forced = [{"segment": 0, "position": 0, "token": "RED"}]
    answer = ask(client, segments=3, forced=forced, alternatives=2).json()
    assert answer["translatedText"].startswith("RED")
    assert answer["alternatives"]
    assert all(text.startswith("RED") for text in answer["alternatives"])


def test_the_dial_reaches_the_model_and_confidence_comes_back(make_client: MakeClient) -> None:
    model = fake_model(choices=[1, 2, 4])
    client, asked = make_client([model]), {"q": "the dogs run", "source": "en", "target": "de"}
    for fields, mode in (
        ({}, None),
        ({"quality": "best"}, "best"),
        ({"exact": True}, "exact"),
    ):
        assert "confidence" not in client.post("/translate", json=asked | fields).json()
        assert model.translator.modes[-1] == mode
    assert client.post("/translate", json=asked | {"confidence": True}).json()["confidence"] == 0.5
    assert client.post("/translate", data=asked | {"exact": "1", "confidence": "true"}).json()["confidence"] == 0.5
    assert model.translator.modes[-1] == "exact"
    several = client.post("/translate", json=asked | {"q": ["the dogs", ""], "confidence": True}).json()
    assert several["confidence"] == [0.5, None]


def test_each_token_of_a_request_has_the_same_weight_in_its_confidence() -> None:
    short, long = (Translation("", "", ids=[7] * n, confidence=sure) for n, sure in ((1, 0.9), (7, 0.3)))
    together = (2 * math.log(0.9) + 8 * math.log(0.3)) / 10  # with an EOS each
    silent = Translation("", "")  # nothing was translated
    assert Outcome("", sentences=[short, silent, long]).confidence == pytest.approx(math.exp(together))
    assert Outcome("", sentences=[long]).confidence == pytest.approx(0.3)
    assert Outcome("", sentences=[silent]).confidence is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"quality": "good"}, "quality"),
        ({"quality": "best", "segments": 4, "forced": [FORCED]}, "forced: not together with quality 'best'"),
        ({"segments": 11}, "segments: this model writes 1 to 10 segments"),
        ({"segments": "9" * 5000}, "segments: Input should be less than or equal to 1000"),
    ],
)
def test_a_mode_that_cannot_be_is_refused(make_client: MakeClient, fields: dict[str, Any], message: str) -> None:
    client = make_client([fake_model(choices=[1, 2, 4])])
    answer = client.post("/translate", json={"q": "the dogs run", "source": "en", "target": "de"} | fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_model_that_cannot_judge_says_so(make_client: MakeClient) -> None:
    asked = {"q": "the dogs run", "source": "en", "target": "de", "quality": "balanced"}
    answer = make_client([fake_model(choices=[4])]).post("/translate", json=asked)
    assert (answer.status_code, "trained for 1 segment" in answer.json()["error"]) == (400, True)


def test_alternatives_of_a_judged_translation_are_forced_plainly(make_client: MakeClient) -> None:
    model = fake_model(choices=[1, 2, 4])
    answer = ask(make_client([model]), alternatives=1, quality="best")
    assert answer.status_code == 200
    first, *forced = model.translator.modes
    assert first == "best"
    assert forced
    assert set(forced) == {None}


TERMS = {"dogs": "Hunde", "park": "", "run": None}


@pytest.mark.parametrize("how", ["json", "data"])
def test_a_glossary_reaches_the_model(make_client: MakeClient, how: str) -> None:
    client, asked = make_client(), {"q": "the dogs run", "source": "en", "target": "de"}
    told: Any = TERMS if how == "json" else json.dumps(TERMS)
    answer = client.post("/translate", **{how: asked | {"glossary": told}})
    assert answer.json() == {"translatedText": "THE DOGS RUN"}
    (glossary,) = client.translator.glossaries  # type: ignore[attr-defined]
    assert [(term.source, term.target) for term in glossary.terms] == [("dogs", "Hunde"), ("park", ""), ("run", "")]
    client.post("/translate", **{how: asked})
    assert client.translator.glossaries[-1] is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"glossary": ["dogs"]}, "glossary"),
        ({"glossary": {str(n): "x" for n in range(201)}}, "glossary"),
        ({"glossary": {"x" * 201: "x"}}, "glossary"),
        ({"glossary": {"dogs": 7}}, "glossary"),
        ({"glossary": {"!": "x"}}, "there is no term"),
        ({"glossary": TERMS, "segments": 4, "forced": [FORCED]}, "glossary: it goes without forced tokens"),
    ],
)
def test_a_glossary_that_cannot_be_is_refused(client: TestClient, fields: dict[str, Any], message: str) -> None:
    answer = client.post("/translate", json={"q": "the dogs run", "source": "en", "target": "de"} | fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_the_trace_shows_doubt_and_what_was_verified(client: TestClient) -> None:
    (plain,) = ask(client, trace=0).json()["trace"]
    assert (plain["confidence"], plain["doubtful"], plain["draft"], plain["repairs"]) == (None, [], None, [])
    (sure,) = ask(client, "the dogs run", trace=0, confidence=True).json()["trace"]
    assert (sure["confidence"], sure["doubtful"]) == (0.5, [[9, 12]])


def test_exact_shows_its_draft(make_client: MakeClient) -> None:
    client = make_client([fake_model(choices=[1, 4])])
    (sentence,) = ask(client, "the dogs run", trace=0, quality="exact").json()["trace"]
    assert sentence["draft"] == {"pieces": ["THE", "DOGS"], "accepted": [True, True, False, False]}
    assert len(sentence["segments"]) == 1


def test_what_is_written_again_costs_its_sender_turns(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client([fake_model(choices=[1, 2, 4])])
    batcher, costs = client.service.batcher, []  # type: ignore[attr-defined]
    submit = batcher.submit

    def noting(sender: str, jobs: Any) -> Any:
        costs.extend(cost for *_, cost in jobs)
        return submit(sender, jobs)

    monkeypatch.setattr(batcher, "submit", noting)
    ask(client)
    ask(client, glossary=TERMS)
    ask(client, alternatives=1)
    assert [cost / len(SENTENCE) for cost in costs] == [1, 4, 1 + 2]
