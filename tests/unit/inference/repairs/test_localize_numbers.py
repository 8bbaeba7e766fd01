"""Numbers as the target language writes them."""

import pytest

from recoversat.text.numbers import in_24_hours, localized, uniform_times


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("It costs £9.99.", "Es kostet £9.99.", "Es kostet 9,99 £."),
        ("It is $1,249.50 now", "Es ist jetzt $1.249.50", "Es ist jetzt 1.249,50 $"),
        ("1,250,000 people", "1,250,000 Leute", "1.250.000 Leute"),
        ("by 3.5% or 2.5", "um 3.5 % oder 2.5", "um 3,5 % oder 2.5"),  # 2.5 may be a version
        ("Version 2.13.0 and 1.2", "Version 2,13,0 und 1,2", "Version 2.13.0 und 1,2"),
        ("Version 1,250", "Version 1,250", "Version 1,250"),
        ("13/04/2025, 04/13/2025", "13/04/2025, 04/13/2025", "13.04.2025, 13.04.2025"),
        ("on 03/04/2025", "am 03/04/2025", "am 03/04/2025"),  # March or April?
        ("the variable $1", "die Variable $1", "die Variable $1"),
        ("$50 million", "$50 Millionen", "$50 Millionen"),
        ("3.5 and 5.3", "5.3 und 3.5", "5.3 und 3.5"),
        ("at 9:30", "um 9.30", "um 9:30"),
        ("at 9 a.m. or 4:30 p.m.", "um 9 a.m. oder 4:30 pm.", "um 9:00 Uhr oder 16:30 Uhr."),
        ("at 4:30 p.m., no. 4.30", "um 16.30 Uhr, Nr. 4.30", "um 16:30 Uhr, Nr. 4.30"),
        ("until 9", "bis 9 am Montag", "bis 9 am Montag"),  # no time of the day
    ],
)
def test_into_german(source: str, translation: str, expected: str) -> None:
    assert localized(source, translation, ("en", "de")) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("1.249,50 €", "1.249.50 €", "€1,249.50"),
        ("3,5 Prozent", "3,5 percent", "3.5 percent"),
        ("am 03.04.2025", "on 03,04,2025", "on 03.04.2025"),
        ("um 16.30 Uhr", "at 16.30", "at 16:30"),
        ("192.168.100.200 und 1.250.000", "192,168,100,200 and 1.250.000", "192.168.100.200 and 1,250,000"),
        ("Mt 5,3", "Mt 5:3", "Mt 5:3"),
        ("1,2,3", "1,2,3", "1,2,3"),
        ("5 Mio. €", "5 million €", "5 million €"),
    ],
)
def test_into_english(source: str, translation: str, expected: str) -> None:
    assert localized(source, translation, ("de", "en")) == expected


def test_other_languages_are_left_alone() -> None:
    assert localized("£9.99", "£9.99", ("en", "fr")) == "£9.99"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 4:30 p.m. on Monday", "at 16:30 on Monday"),
        ("at 4:30 p.m.", "at 16:30."),
        ("at 4 p.m. Then", "at 16:00. Then"),
        ("12 am or 12PM", "0:00 or 12:00"),
        ("I am 5 amps", "I am 5 amps"),
        ("at 14 pm", "at 14 pm"),
    ],
)
def test_times(text: str, expected: str) -> None:
    assert in_24_hours(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at 4:30PM on Monday", "at 4:30 p.m. on Monday"),
        ("at 4 p. m. or 5 pm, or 6 AM.", "at 4 p.m. or 5 p.m., or 6 a.m."),
        ("at 12 am", "at 12 am"),  # no full stop is added at the end
        ("9am–5pm and 7-8 pm", "9 a.m. to 5 p.m. and 7-8 pm"),
        ("I am 5 amps", "I am 5 amps"),
    ],
)
def test_times_in_one_way(text: str, expected: str) -> None:
    assert uniform_times(text) == expected


def test_the_model_reads_times_in_one_way(scripted) -> None:
    translator = scripted({"gas": ["the EOS"]})
    translator.set_decoding(localize_numbers=True)
    translator.source, translator.target = "en", "de"
    seen: list[str] = []
    translator.read, read = lambda texts: (seen.extend(texts), read(texts))[1], translator.read
    with pytest.raises(KeyError):  # there is no script for it
        translator.translate(["at 4:30PM."])
    assert seen == ["at 4:30 p.m."]
