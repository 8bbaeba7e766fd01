"""Fitting what a confidence means, and saying how reliable it is."""

from pathlib import Path

import numpy as np
import pytest

from recoversat.errors import UserError
from recoversat.inference.confidence import Calibration, Curve
from recoversat.inference.translation import Segment, Translation
from recoversat.measuring.quality.calibration import calibrate, fit, keep


class Judged:
    """Translates into the reference or into something else; is the less sure, the more often it is wrong."""

    def __init__(self, log_probs: list[float], right: list[bool]) -> None:
        self._log_probs, self._right = log_probs, right

    def translate_iterable(self, texts, done):
        done(len(texts))
        return [
            Translation(text, "a good line" if ok else "zzz", []) for text, ok in zip(texts, self._right, strict=True)
        ]

    def score_batch(self, sources, targets):
        return [
            Translation(source, target, [Segment("", [], [], "eos", [p, p])])
            for source, target, p in zip(sources, targets, self._log_probs, strict=True)
        ]


def drawn(n: int) -> tuple[list[float], list[bool]]:
    """Sentences whose probability of being right is known: 1 / (1 + exp(2 - 4 p)), p that of their tokens."""
    generator = np.random.default_rng(7)
    p = generator.uniform(0.02, 1, n)
    return np.log(p).tolist(), (generator.random(n) < 1 / (1 + np.exp(2 - 4 * p))).tolist()


def test_the_curve_is_found_again() -> None:
    log_probs, right = drawn(20_000)
    given = np.stack([np.ones(20_000), np.exp(log_probs)], axis=1)
    assert fit(given, np.array(right, dtype=np.float64)) == pytest.approx([-2, 4], abs=0.2)


def test_what_is_said_is_so_and_the_table_shows_it() -> None:
    log_probs, right = drawn(2000)
    lines = ["a line"] * 2000
    curve, table = calibrate(Judged(log_probs, right), lines, ["a good line"] * 2000, 30)  # type: ignore[arg-type]
    assert curve.sentences == 2000
    assert curve.probability([np.log(0.5)] * 2) == pytest.approx(0.5, abs=0.06)
    assert curve.probability([-0.1, -0.1]) > 0.75
    rows = {row[0]: row for row in table.rows}
    assert sum(int(row[1].replace(",", "")) for row in rows.values()) == 2000
    assert all(abs(float(row[2]) - float(row[3])) < 0.12 for row in rows.values())


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(UserError, match="99 sentences are too few"):
        calibrate(Judged([], []), ["x"] * 99 + [""], ["y"] * 100, 30)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="all sentences are on one side of 30 chrF2"):
        calibrate(Judged([-1.0] * 100, [True] * 100), ["x"] * 100, ["a good line"] * 100, 30)  # type: ignore[arg-type]


def test_directions_are_kept_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = Curve(weights=(1, 2, 3, 4), sentences=5), Curve(weights=(5, 6, 7, 8), sentences=9)
    keep(tmp_path, "en-de", one, 30)
    keep(tmp_path, "de-en", other, 30)
    read = Calibration.read(tmp_path)
    assert read is not None
    assert (read.curve("en", "de"), read.curve("de", "en")) == (one, other)
    assert capsys.readouterr().err == ""
    keep(tmp_path, "en-de", one, 50)  # another bound means something else: the old ones go
    read = Calibration.read(tmp_path)
    assert read is not None
    assert (read.chrf, list(read.directions)) == (50, ["en-de"])
    told = "note: de-en was calibrated for 30 chrF2++ and is so no longer; calibrate it with --chrf 50 too\n"
    assert capsys.readouterr().err == told
