"""Text in capitals is told from names, and read as a sentence is; words get the capitals a tokenizer knows."""

from collections.abc import Sequence
from typing import cast

import pytest

from recoversat.inference.repairs.lower_capitals import is_all_caps, is_all_small, known_case, to_sentence_case
from recoversat.text.tokenizer import Tokenizer


@pytest.mark.parametrize("text", ["DO NOT OPEN", "3 DOGS RUN!", "ÜBER DEN FLUSS", "GAS – AUS"])
def test_two_words_in_capitals_are_loud(text: str) -> None:
    assert is_all_caps(text)


@pytest.mark.parametrize("text", ["NATO", "IBM PC 300", "EU, UN", "Do NOT OPEN", "123", ""])
def test_names_and_sentences_are_not(text: str) -> None:
    assert not is_all_caps(text)


@pytest.mark.parametrize(
    ("text", "calmed"),
    [("do not open", "Do not open"), ("3 dogs run!", "3 Dogs run!"), ("“über", "“Über"), ("123", "123"), ("", "")],
)
def test_the_first_letter_becomes_a_capital(text: str, calmed: str) -> None:
    assert to_sentence_case(text) == calmed


@pytest.mark.parametrize(
    ("text", "small"), [("wo ist das", True), ("wo ist Das", False), ("das", False), ("12 im", False), ("", False)]
)
def test_two_words_without_capitals_are_small(text: str, small: bool) -> None:
    assert is_all_small(text) == small


class _Pieces:
    """Knows some words as one piece, the frequent ones by a small number; others letter by letter."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        known = {"Bahnhof": 90, "morgen": 50, "Morgen": 80, "Haus": 30, "haus": 70, "ist": 40}
        return [[known[line]] if line in known else [100] * len(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wo ist der bahnhof?", "wo ist der Bahnhof?"),  # fewer pieces
        ("morgen (haus)", "morgen (Haus)"),  # the more frequent of two
        ("bahnhof.de, /bahnhof, bahnhof-x, {haus}, haus_1", "bahnhof.de, /bahnhof, bahnhof-x, {haus}, haus_1"),
        ("„bahnhof“ … haus!", "„Bahnhof“ … Haus!"),
    ],
)
def test_words_are_written_as_they_are_known(text: str, expected: str) -> None:
    assert known_case(text, cast(Tokenizer, _Pieces())) == expected
