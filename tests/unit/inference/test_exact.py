"""Exact: where a draft is verified, where K = 1 writes every token itself, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recoversat.config import parse_config
from recoversat.engines.engine import Options
from recoversat.engines.loading import engine_for
from recoversat.errors import UserError
from recoversat.inference import exact
from recoversat.inference.request import modes_for
from recoversat.model.weights import load_model
from recoversat.text.tokenizer import load_tokenizer
from recoversat.translator import Translator
from tests.system.tiny_model import tiny_config, write_sentences, write_tiny_model
from tests.unit.inference.by_count import writes


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = write_tiny_model(tmp_path_factory.mktemp("exact") / "model")
    engine = engine_for(load_model(folder)[0], torch.device("cpu"))
    return Translator.of(engine, load_tokenizer(folder), tiny_config())


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the length of each draft that is verified."""
    drafts: list[int] = []
    write = exact.write_verified

    def watch(draft, *others):
        drafts.append(len(draft))
        return write(draft, *others)

    monkeypatch.setattr(exact, "write_verified", watch)
    return drafts


def test_the_words_are_those_of_one_segment_in_batches_and_alone(translator, verified, tmp_path: Path) -> None:
    texts = [*write_sentences(tmp_path / "src", 30), "", "w1"]
    expected = [(one.text, one.ids, one.confidence) for one in translator.translate(texts, segments=1)]
    for batch_size in (1, 4, 32):
        verified.clear()
        found = translator.translate(texts, quality="exact", batch_size=batch_size)
        assert [(one.text, one.ids, pytest.approx(one.confidence, abs=1e-5)) for one in found] == expected
        assert len(verified) == (sum(len(text.split()) > 2 for text in texts) if batch_size == 1 else 0)


def test_with_a_tolerance_words_do_not_depend_on_the_batch(translator, verified, tmp_path: Path) -> None:
    texts = [*write_sentences(tmp_path / "src", 30), "", "w1"]
    exactly = translator.translate(texts, segments=1)
    translator.set_decoding(exact=True, tolerance=0.2)
    try:
        alone = translator.translate(texts, batch_size=1)
        assert len(verified) == sum(len(text.split()) > 2 for text in texts)
        for batch_size, trace in ((4, 0), (32, 0), (32, 2)):
            found = translator.translate(texts, batch_size=batch_size, alternatives=trace)
            assert [(one.text, one.ids) for one in found] == [(one.text, one.ids) for one in alone]
            assert [one.confidence for one in found] == [pytest.approx(one.confidence, abs=1e-5) for one in alone]
    finally:
        translator.set_decoding(exact=False, tolerance=0.0)
    assert any(one.text != other.text for one, other in zip(alone, exactly, strict=True))


@pytest.mark.parametrize("tolerance", [0.0, 1.0])
def test_what_is_tolerated_need_not_be_in_a_list(translator, monkeypatch: pytest.MonkeyPatch, tolerance: float) -> None:
    asked, verifier = [], type(translator.engine).verifier

    def watch(self, source, room, options=Options()):
        asked.append(options.shortlist)
        return verifier(self, source, room, options)

    monkeypatch.setattr(type(translator.engine), "verifier", watch)
    source = translator.tokenizer.encode(["w1 w2 w3 w4 w5 w6"])
    exact.decode_exactly(translator.engine, source, np.array([2]), Options(tolerance=tolerance))
    assert asked == [tolerance == 0]


@pytest.mark.parametrize(("asked", "drafts"), [({}, 0), ({"segments": "auto"}, 1), ({"segments": 4}, 1)])
def test_where_a_draft_does_not_pay_it_is_made_only_for_a_k_that_is_named(
    translator, verified, monkeypatch: pytest.MonkeyPatch, asked: dict[str, object], drafts: int
) -> None:
    text = "w1 w2 w3 w4 w5 w6"
    (expected,) = translator.translate([text], segments=1)
    monkeypatch.setattr(type(translator.engine), "drafts_pay_from", 7)
    (found,) = translator.translate([text], quality="exact", **asked)
    assert (found.text, len(verified)) == (expected.text, drafts)
    translator.translate([f"{text} w7"], quality="exact")
    drafts += 1
    assert len(verified) == drafts
    translator = translator.into("de")
    translator.set_decoding(exact=True, tolerance=0.2)  # that is no way to K = 1's words
    translator.translate([text])
    assert len(verified) == drafts + 1


def test_a_k_that_is_named_drafts(translator, verified, monkeypatch: pytest.MonkeyPatch) -> None:
    drafted = []
    decode = type(translator.engine).decode

    def watch(self, sources, n_segments, options=Options()):
        drafted.append((n_segments.tolist(), options.verified))
        return decode(self, sources, n_segments, options)

    monkeypatch.setattr(type(translator.engine), "decode", watch)
    (one,) = translator.translate(["w1 w2 w3 w4 w5 w6"], segments=2, quality="exact")
    assert (drafted, len(verified), len(one.segments)) == ([([2], False)], 1, 1)  # K = 1 verifies what is in no list


def test_what_else_was_likely_is_known_of_what_is_written_step_by_step(translator, verified) -> None:
    (one,) = translator.translate(["w1 w2 w3 w4 w5 w6"], quality="exact", alternatives=2)
    assert not verified
    assert len(one.segments[0].alternatives) == len(one.segments[0].log_probs)


def test_an_engine_that_cannot_verify_writes_every_token_itself() -> None:
    without_draft = writes({("no 7 8", 1): ["7 8 EOS"]})
    assert without_draft.translate(["no 7 8"], quality="exact")[0].text == "7 8"
    translator = writes({("no 7 8", 1): ["7 8 EOS"], ("no 7 8", 2): ["7 EOS", "7 EOS"]})
    assert translator.translate(["no 7 8"], quality="exact")[0].text == "7 8"
    translator.set_decoding(exact=True)
    assert translator.translate(["no 7 8"])[0].text == "7 8"
    assert translator.translate(["no 7 8"], quality="fast")[0].text == "7 7"


def test_what_does_not_go_together_is_refused() -> None:
    translator = writes({("no 7 8", 1): ["7 8 EOS"]})
    forced: tuple[dict[str, Any], ...] = ({"force": ["1:1=7"]}, {"forced": [{(0, 0): 7}]})
    for other, message in (*((one, "forced tokens") for one in forced), ({"beam": 2}, "beam 2")):
        with pytest.raises(UserError, match=f"{message} cannot be combined with a quality other than fast"):
            translator.translate(["no 7 8"], quality="exact", **other)
    nat = parse_config({"model": {"kind": "nat"}, "train": {"segments": 1}})
    with pytest.raises(UserError, match="of kind 'nat' cannot verify"):
        modes_for(nat, None, "best", beam=1, forced=False)
    with pytest.raises(UserError, match="not trained with K = 1"):
        modes_for(parse_config({"train": {"segments": [2, 5]}}), None, "best", beam=1, forced=False)
    for wrong in ("good", ["best"]):
        with pytest.raises(UserError, match="quality: there are fast, balanced, best, exact"):
            translator.translate(["no 7 8"], quality=wrong)


def test_settings_of_earlier_versions_that_changed_nothing_are_read() -> None:
    assert parse_config({"decode": {"best_of": 1, "doubt": None}}) == parse_config({})
    with pytest.raises(UserError, match=r"decode\.best_of no longer exists"):
        parse_config({"decode": {"best_of": 3}})


def test_steps_are_those_of_the_draft_and_the_passes(translator) -> None:
    source = translator.tokenizer.encode(["w1 w2 w3 w4 w5 w6"])
    (drafted,) = translator.engine.decode(source, np.array([4]))
    (written,) = exact.decode_exactly(translator.engine, source, np.array([4]), Options())
    verify = exact.verifier_for(translator.engine, source, Options())
    assert verify
    assert written.steps == drafted.steps + verify(exact.assemble(drafted.segments)).steps


def test_the_usual_quality_is_that_of_calls_that_name_none() -> None:
    scripts = {("no 7 8", 1): ["7 8 EOS"], ("no 7 8", 2): ["7 EOS", "7 EOS"]}
    translator = writes(scripts, usual="exact")
    assert translator.translate(["no 7 8"])[0].text == "7 8"
    for named in ({"segments": 2}, {"segments": "auto"}, {"quality": "fast"}):
        assert translator.translate(["no 7 8"], **named)[0].text == "7 7"
    (forced,) = translator.translate(["no 7 8"], force=["2:1=8"])
    assert (forced.text, len(forced.segments)) == ("7 8", 2)
    translator.set_decoding(check_numbers=False)
    assert translator.translate(["no 7 8"])[0].text == "7 8"
    less_strict = writes(scripts, usual="exact")
    less_strict.set_decoding(tolerance=0.3)
    assert (less_strict.config.decode.exact, less_strict.config.decode.tolerance) == (True, 0.3)
    translator.set_decoding(quality="fast")  # no longer the usual one, but that of every call
    assert translator.translate(["no 7 8"])[0].text == "7 7"
