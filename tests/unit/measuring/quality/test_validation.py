"""Validation while a model is trained, and when it is exported."""

import pytest

from recoversat.measuring.quality.validation import translate_valid
from tests.unit.inference.by_count import writes


@pytest.mark.parametrize(("segments", "written"), [(None, "7 7"), (1, "7 8"), (2, "7 7")])
def test_segments_are_validated_whatever_is_usual_for_the_model(segments: int | None, written: str) -> None:
    scripts = {("no 7 8", 1): ["7 8 EOS"], ("no 7 8", 2): ["7 EOS", "7 EOS"]}
    assert translate_valid(writes(scripts, usual="exact"), ["no 7 8"], 1, segments) == [written]
