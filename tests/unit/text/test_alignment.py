"""Words of a translation are given to the part of the source that explains them better than the rest does."""

import numpy as np
import pytest

from recoversat.text.alignment import Part, place_of
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import SPECIAL_PIECES

PIECES = ["wir", "gin@@", "gen", "im", "Park", "spa@@", "zieren", "spa@@", "!@@", "?@@", ",", ".", "(@@", ")"]
TOKENIZER = BpeTokenizer([*SPECIAL_PIECES, *dict.fromkeys([*PIECES, "zieren@@", "Park@@", "(Park!).", "»Park«"])])


def place(
    text: str, pieces: str, gains: list[float], inside: str = "walk", losses: list[float] | None = None
) -> str | None:
    ids = [TOKENIZER.encode([piece])[0][0] for piece in pieces.split()]
    outside = np.full(len(ids), -20.0)
    given = [outside + (losses or 0.0), outside + gains, outside]
    found = place_of(Part("all", inside, "rest", text), ids, given, TOKENIZER)
    return text[slice(*found)] if found else None


@pytest.mark.parametrize(
    ("gains", "found"),
    [
        ([-9, 5, 2, -9, -9, 4, 4, 9], "spazieren"),  # the stop says nothing, and stays outside
        ([-9, 5, 9, -9, -9, 4, 4, 9], "gingen"),
        ([-9, 5, 9, -1, -9, 9, 9, 0], "gingen im Park spazieren"),
        ([-9, 5, -6, -9, -9, -4, -4, 9], None),
        ([1, 0, 0, 0, 0, 0, 0, 0], "wir"),
    ],
)
def test_the_words_with_the_largest_gain_are_found(gains: list[float], found: str | None) -> None:
    assert place("wir gingen im Park spazieren.", "wir gin@@ gen im Park spa@@ zieren@@ .", gains) == found


def test_where_a_part_alone_says_too_little_its_lack_tells() -> None:
    gains, written = [-9.0] * 8, "wir gin@@ gen im Park spa@@ zieren@@ ."
    for losses, found in (
        ([0, 9, 9, 0, 1, 4, 9, 9], "gingen"),
        ([0, 1, 0, 9, 5, 0, 4, 9], "im Park"),
    ):
        assert place("wir gingen im Park spazieren.", written, gains, losses=list(map(float, losses))) == found
    assert place("wir gingen im Park spazieren.", written, gains, losses=[0.5, 0, 0, 0.9, 0, 0, 0, 9]) is None


def test_a_word_without_any_probability_counts_for_nothing() -> None:
    assert place("wir im Park", "wir im Park", [-np.inf, np.nan, 2.0]) == "Park"


def test_a_part_has_the_punctuation_its_source_has() -> None:
    written, gains = ("wir (@@ Park@@ )", [-1.0, 0.0, 3.0, 0.0])
    assert place("wir (Park)", written, gains, "park") == "Park"
    assert place("wir (Park)", written, gains, "(the park)") == "(Park)"
    assert place("wir (Park)", written, gains, "(park") == "(Park"
    for inside, found in (
        ("now!", "Park!"),
        ("now", "Park"),
        ("now.", "Park"),
        ("(now!).", "(Park!)."),
        ("now!?", "Park!"),
    ):
        assert place("wir (Park!).", "wir (Park!).", [-1.0, 3.0], inside) == found
    assert place("wir »Park«", "wir »Park«", [-1.0, 3.0], '"park"') == "»Park«"


def test_text_that_is_cut_into_other_words_has_no_place() -> None:
    assert place("wir  Park spa", "wir Park", [-1.0, 3.0]) is None
