"""Several sentences in one line."""

import pytest

from recoversat.inference.repairs.split_sentences import sentences_of


def test_sentences_of_a_line_are_translated_by_themselves(scripted) -> None:
    translator = scripted(
        {"The gas house.": ["in EOS"], "Cham a bers.": ["gas EOS"], "The gas house. Cham a bers.": ["a EOS"]}
    )
    together, alone = translator.translate(["The gas house.  Cham a bers.", "The gas house."])
    assert together.text == "a"
    translator.set_decoding(split_sentences=True)
    split, single = translator.translate(["The gas house.  Cham a bers.", "The gas house."])
    assert (split.text, split.source) == ("in  gas", "The gas house.  Cham a bers.")
    assert single.text == alone.text == "in"
    assert len(split.segments) == 2 * len(single.segments)
    assert split.ids == translator.tokenizer.encode([split.text])[0]
    forced = translator.translate(["The gas house.  Cham a bers."], forced=[{(0, 0): 6}])  # names a place in all of it
    assert forced[0].text == "house"


@pytest.mark.parametrize(
    ("text", "language", "parts"),
    [
        ("Dr. Who met Mr. Smith at 5 p.m. in St. Ives.", "en", None),
        ("Er kam z. B. am 3. Mai zum 2. Stock.", "de", None),
        ("Er traf Hr. Meier bzw. Fr. Huber.", "de", None),
        ("It costs £9.99. Take it!", "en", ["It costs £9.99.", "Take it!"]),
        ("See https://x.org/a.b?c! Then go.", "en", ["See https://x.org/a.b?c!", "Then go."]),
        ("Herr Präsident! Ich danke Ihnen.", "de", None),  # one sentence in English
        ("Halt! Wer ist da?", "de", ["Halt!", "Wer ist da?"]),
        ("1. Open it.", "en", None),
        ("Version 2. 5.", "en", None),
        ("STOP! DO NOT OPEN!", "en", None),  # capitals are looked at together
        ("“Go!” he said. “No.”", "en", ["“Go!” he said.", "“No.”"]),
    ],
)
def test_sentences_of(text: str, language: str, parts: list[str] | None) -> None:
    found = sentences_of(text, language)
    assert (found and found.texts) == parts
    assert found is None or found.joined(found.texts) == text
