"""What a confidence says: calibrated or not, and which words it doubts."""

import json
import math
from pathlib import Path

import pytest

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Options, Sources
from recoversat.errors import UserError
from recoversat.inference.confidence import CALIBRATION, Calibration, Curve, judge
from recoversat.inference.translation import Translation
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import Job
from recoversat.pipeline.translate_files import translate_jobs, translate_texts
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import SPECIAL_PIECES
from tests.unit.inference.by_count import writes

TOKENIZER = BpeTokenizer([*SPECIAL_PIECES, "the", "cham@@", "bers"])
IDS = TOKENIZER.encode(["the cham@@ bers the"])[0]


def test_without_a_curve_it_is_the_geometric_mean() -> None:
    log_probs = [math.log(0.9), math.log(0.4), -0.1, -0.1, -0.1]
    confidence, doubtful = judge("the chambers the", IDS, log_probs, TOKENIZER, None)
    assert confidence == pytest.approx((0.9 * 0.4 * math.exp(-0.3)) ** 0.2)
    assert doubtful == ()
    assert judge("", [], [], TOKENIZER, None) == (None, ())


def test_a_word_is_in_doubt_with_one_unlikely_token() -> None:
    _, doubtful = judge("the chambers the", IDS, [-0.1, -0.1, -3.5, -2.9, -9.0], TOKENIZER, None)
    assert doubtful == ((4, 12),)  # neither 5.5 %, nor an unlikely end, is a doubtful word
    assert judge("other words", IDS, [-9.0] * 5, TOKENIZER, None)[1] == ()
    assert judge("the chambers the", IDS, [-9.0] * 9, TOKENIZER, None)[1] == ()  # in parts


def test_a_curve_gives_a_probability_by_mean_worst_and_length() -> None:
    curve = Curve(weights=(1.0, 2.0, 0.5, 0.25), sentences=100)
    x = 1.0 + 2.0 * math.exp(-0.5) + 0.5 * -0.9 + 0.25 * math.log(2)
    assert curve.probability([-0.1, -0.9]) == pytest.approx(1 / (1 + math.exp(-x)))
    assert curve.probability([-0.1, -math.inf]) == pytest.approx(1 / (1 + math.exp(9 - 0.25 * math.log(2))))
    confidence, _ = judge("the the", IDS[:1] * 2, [-0.1, -0.1, -0.9], TOKENIZER, curve)
    assert confidence == pytest.approx(curve.probability([-0.1, -0.1, -0.9]))


def test_a_calibration_is_read_from_the_folder(tmp_path: Path) -> None:
    assert Calibration.read(tmp_path) is None
    curve = {"weights": [1, 2, 3, 4], "sentences": 7}
    (tmp_path / CALIBRATION).write_text(
        json.dumps({"format": "recoversat-confidence-1", "chrf": 30, "directions": {"en-de": curve}})
    )
    read = Calibration.read(tmp_path)
    assert read is not None
    assert read.curve("en", "de") == Curve(weights=(1, 2, 3, 4), sentences=7)
    assert read.curve("de", "en") is None
    for damaged in ('{"format": "recoversat-confidence-9", "chrf": 30, "directions": {}}', "{}", '{"chrf": 30}'):
        (tmp_path / CALIBRATION).write_text(damaged)
        with pytest.raises(UserError, match="no calibration of this version"):
            Calibration.read(tmp_path)


def test_a_translation_is_doubtful_below_a_bound() -> None:
    assert Translation("a", "b", confidence=0.4).is_doubtful(0.5)
    assert not Translation("a", "b", confidence=0.5).is_doubtful(0.5)
    assert not Translation("a", "b", confidence=0.4).is_doubtful(None)
    assert not Translation("", "").is_doubtful(0.5)  # nothing was translated


# a script's token t has log-probability -(t + 1) / 10: the shorter one is the likelier
SCRIPTS = {
    ("no number", 2): ["no EOS", "number EOS"],
    ("no number", 1): ["8 EOS"],
    ("number no", 2): ["7 EOS", "EOS"],
    ("number no", 1): ["7 8 EOS"],
    ("no", 1): ["no EOS"],
    ("no", 2): ["no EOS", "EOS"],
}


def test_confidence_is_known_of_any_translation_that_is_asked_for_it() -> None:
    translator = writes(SCRIPTS)
    plain, asked = (translator.translate(["no number"], confidence=wanted)[0] for wanted in (False, True))
    assert (plain.confidence, asked.text) == (None, "no number")
    assert asked.confidence == pytest.approx(math.exp(-0.2))  # no, number, EOS in one segment
    assert translator.translate(["no number"], segments=1)[0].confidence == pytest.approx(math.exp(-0.15))


def test_a_repaired_translation_is_scored_as_repaired() -> None:
    scripts = {("no 7 8", 2): ["7 EOS", "7 EOS"], ("no 7 8", 1): ["7 8 EOS"]}
    translator = writes(scripts, check_numbers=True)
    (found,) = translator.translate(["no 7 8"], segments=2, scores=False, confidence=True)
    assert (found.text, found.repairs) == ("7 8", ("check_numbers",))
    assert found.confidence == pytest.approx(math.exp(-0.2))


def test_parts_of_a_long_text_share_a_confidence() -> None:
    translator = writes(SCRIPTS)
    short = translator.config.data.model_copy(update={"max_tokens": 2})
    translator.config = translator.config.model_copy(update={"data": short})
    (found,) = translator.translate(["no number no"], segments=1, scores=False, confidence=True)
    assert found.text == "8 no"
    assert found.confidence == pytest.approx(math.exp(-0.15))


def test_json_lines_say_how_sure_k_1_is_where_it_writes_and_take_no_pass_for_it(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text('{"text": "no number"}\n{"text": "no"}\n{"text": "no number\\nno"}\n')
    translator = writes(SCRIPTS)
    asked_of_engine: list[tuple[list[int], bool]] = []
    decode = translator.engine.decode

    def noting(sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        asked_of_engine.append((n_segments.tolist(), options.scores))
        return decode(sources, n_segments, options)

    monkeypatch.setattr(translator.engine, "decode", noting)
    monkeypatch.setattr(translator.engine, "score", None)  # nothing is read once more

    def told(**more: object) -> list[float | None]:
        asked_of_engine.clear()
        asked = TranslateOptions(batch_size=1, jsonl=True, **more)
        translate_jobs(translator, [Job([tmp_path / "in"], tmp_path / "out")], asked)
        return [json.loads(line).get("confidence") for line in (tmp_path / "out").read_text().splitlines()]

    sure = round(math.exp(-0.15), 4)  # one token and EOS
    assert told(segments=1) == [sure, sure, None]
    assert told() == [None, sure, None]  # a short sentence is written in one segment
    assert {scores for k, scores in asked_of_engine if k == [2]} == {False}
    assert [scores for k, scores in asked_of_engine if k == [1]] == [True, False]  # that with line breaks tells none
    assert told(segments=2) == [None, None, None]
    assert told(segments=1, workers=2) == [None, None, None]  # they hand on nothing but texts
    assert told(segments=1, min_confidence=0.9) == [sure, sure, sure]
    translator.set_decoding(quality="exact")
    assert told() == told(segments=1) == [sure, sure, None]


def test_models_that_know_nothing_of_segments_tell_no_confidence() -> None:
    translator = writes(SCRIPTS)
    asked = TranslateOptions(segments=1, jsonl=True)
    assert translate_texts(translator, ["no"], asked)[0].confidence
    model = translator.config.model.model_copy(update={"kind": "ctc"})
    translator.config = translator.config.model_copy(update={"model": model})
    assert translate_texts(translator, ["no"], asked)[0].confidence is None
