"""Text in capitals is told from names, and written small as a sentence is."""

import pytest

from recoversat.inference.repairs.lower_capitals import is_all_caps, to_sentence_case


@pytest.mark.parametrize("text", ["DO NOT OPEN", "3 DOGS RUN!", "ÜBER DEN FLUSS", "GAS – AUS"])
def test_two_words_in_capitals_are_loud(text: str) -> None:
    assert is_all_caps(text)


@pytest.mark.parametrize("text", ["NATO", "IBM PC 300", "EU, UN", "Do NOT OPEN", "123", ""])
def test_names_and_sentences_are_not(text: str) -> None:
    assert not is_all_caps(text)


@pytest.mark.parametrize(
    ("text", "calmed"),
    [("DO NOT OPEN", "Do not open"), ("3 DOGS RUN!", "3 Dogs run!"), ("“ÜBER", "“Über"), ("123", "123"), ("", "")],
)
def test_the_first_letter_stays_a_capital(text: str, calmed: str) -> None:
    assert to_sentence_case(text) == calmed
