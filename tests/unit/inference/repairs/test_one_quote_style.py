"""Quotation marks of one style."""

import pytest

from recoversat.inference.repairs.one_quote_style import OneQuoteStyle, requoted
from recoversat.inference.request import Request
from recoversat.text.glossary import Glossary


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ('Say "yes"!', "Sag »Ja«!", "Sag „Ja“!"),
        ('Say "yes"!', 'Sag "Ja"!', "Sag „Ja“!"),
        ('Say "yes" or "no"!', "Sag “Ja” oder „Nein”!", "Sag „Ja“ oder „Nein“!"),
        ('Say "yes"!', "Sag Ja“!", "Sag Ja“!"),  # which one is missing?
        ('print("a")', 'print("a")', 'print("a")'),
        ('x = "a"', 'x = "a"', 'x = "a"'),
        ('a 5" disk and a 3" one', 'eine 5"-Diskette und eine 3"', 'eine 5"-Diskette und eine 3"'),
        ('the word "joy", "hi"', "das Wort joy“, und »hi", "das Wort joy“, und »hi"),  # pairs that are none
        ('say "hi"', '("hi")-"ho"', "(„hi“)-„ho“"),
        ('the "a" of', 'das "a"b" c', 'das "a"b" c'),
        ("It's", "Es ist", "Es ist"),
    ],
)
def test_into_german(source: str, translation: str, expected: str) -> None:
    assert requoted(source, translation, "„“") == expected


def test_into_english() -> None:
    assert requoted("Sag „Ja“!", "Say “Yes”!", '""') == 'Say "Yes"!'


def test_english_quotes_are_plain_to_the_model(scripted) -> None:
    translator = scripted({"a b": ["the EOS"]})
    translator.set_decoding(one_quote_style=True)
    translator.source, translator.target = "en", "de"
    translator.read, read = lambda texts: (seen.extend(texts), read(texts))[1], translator.read
    seen: list[str] = []
    with pytest.raises(KeyError):
        translator.translate(["“a b”"])
    assert seen == ['"a b"']


@pytest.mark.parametrize(
    ("source", "expected"), [('Say "yes"!', 'Sag "Ja"!'), ("Say “yes”!", "Sag „Ja“!"), ("Say 'yes'!", "Sag „Ja“!")]
)
def test_who_types_plain_marks_gets_plain_marks(source: str, expected: str, scripted) -> None:
    translator = scripted({"a b": ["the EOS"]})
    translator.source, translator.target = "en", "de"
    request = Request(None, 1, 1)
    assert OneQuoteStyle("one_quote_style", translator, request).restore("Sag »Ja«!", source) == expected
    prescribed = Request(None, 1, 1, glossary=Glossary.of({"yes": "»Ja«"}))
    assert OneQuoteStyle("one_quote_style", translator, prescribed).restore("Sag »Ja«!", source) == "Sag »Ja«!"
