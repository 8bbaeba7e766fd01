"""What a confidence says: calibrated or not, and which words it doubts."""

import json
import math
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.inference.confidence import CALIBRATION, Calibration, Curve, judge
from recoversat.inference.translation import Translation
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import SPECIAL_PIECES

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
