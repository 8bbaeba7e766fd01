"""What ranks the translations of a system in `evaluate`."""

import math
from pathlib import Path

import pytest

from recoversat.inference.translation import Segment, Translation
from recoversat.measuring.quality.outputs import TestSet
from recoversat.measuring.quality.translating import ModelOutputs
from recoversat.measuring.system import System

SEGMENTS = [Segment("x", ["x"], [9], "eos", [-1.0, -3.0])]


class Writes(System):
    """A system that writes what a test says."""

    facts = {}  # noqa: RUF012

    def __init__(self, *confidences: float | None) -> None:
        self._confidences = confidences

    def translate(self, texts, batch_size, length=None, done=lambda count: None):
        return [Translation("a", "x", SEGMENTS, confidence=sure) for sure in self._confidences]

    def source_lengths(self, texts):
        return []

    def settings(self):
        return {"K": 2}


@pytest.mark.parametrize(
    ("confidences", "scores"), [((0.5, 0.9), [math.log(0.5), math.log(0.9)]), ((0.5, None), [-2.0, -2.0])]
)
def test_confidence_ranks_where_all_have_one(
    tmp_path: Path, confidences: tuple[float | None, ...], scores: list[float]
) -> None:
    written = ModelOutputs("own", Writes(*confidences), 2, tmp_path).on(TestSet("test", ["a", "a"], ["x", "x"]))
    assert written.scores == pytest.approx(scores)
