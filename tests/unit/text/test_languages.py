"""The language of a text: right where it is told, silent where it is not, and never one that it is not."""

from pathlib import Path

import pytest

from recoversat.config import DataConfig
from recoversat.errors import UserError
from recoversat.pipeline.direction import Directions
from recoversat.text.languages import Guess, LanguageDetector

DATA = Path(__file__).parents[2] / "data"
OTHERS = {
    "fr": "Le chat dort sur le canapé.",
    "es": "Hola, ¿cómo estás?",
    "it": "Il gatto dorme sul divano mentre piove.",
    "pt": "O gato dorme no sofá enquanto chove lá fora.",
    "nl": "De kat slaapt op de bank terwijl het regent.",
    "sv": "Katten sover på soffan medan det regnar ute.",
    "pl": "Kot śpi na kanapie, a na dworze pada deszcz.",
    "ru": "Привет, как дела?",
    "tr": "Dışarıda yağmur yağarken kedi kanepede uyuyor.",
    "ja": "外は雨が降っているので、猫はソファーで寝ています。",
    "ar": "القطة تنام على الأريكة بينما تمطر في الخارج.",
}


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector(["en", "de"])


@pytest.mark.parametrize("language", ["en", "de"])
def test_single_lines_are_told_apart(detector: LanguageDetector, language: str) -> None:
    lines = (DATA / f"tatoeba.{language}").read_text(encoding="utf-8").splitlines()
    guesses = [detector.guess(line) for line in lines]
    unsure = guesses.count(Guess())
    assert len(lines) == 2000
    assert unsure <= 20
    assert guesses.count(Guess(language)) == len(lines) - unsure  # none is taken for the other, none for a third
    assert {detector.guess("\n".join(lines[at : at + 5])) for at in range(0, len(lines), 5)} == {Guess(language)}


@pytest.mark.parametrize("language", OTHERS)
def test_other_languages_are_none_of_ours(detector: LanguageDetector, language: str) -> None:
    assert detector.guess(OTHERS[language]) == Guess(other=language)


@pytest.mark.parametrize("text", ["", "OK", "Hotel", "Paris", "12345", "https://example.com", "Error 404", "😀"])
def test_what_tells_nothing_is_no_language(detector: LanguageDetector, text: str) -> None:
    assert detector.guess(text) == Guess()


def test_only_the_beginning_of_a_text_is_read(detector: LanguageDetector) -> None:
    assert detector.guess("Das Wetter ist heute sehr schön. " * 400 + "It rains. " * 10_000) == Guess("de")


def test_codes_the_detector_has_never_heard_of_are_never_guessed() -> None:
    assert LanguageDetector(["src", "tgt"]).guess(OTHERS["fr"]) == Guess()


BOTH = DataConfig(src_lang="en", tgt_lang="de", both_directions=True)
GERMAN, ENGLISH = "Das Wetter ist heute sehr schön.", "The weather is very nice today."


def test_a_direction_lasts_until_a_text_says_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    directions = Directions(BOTH, None, None)
    lines = ["OK", GERMAN, "OK", "", OTHERS["fr"], ENGLISH, "Hotel"]
    chosen = [directions.choose(line, "here", alone=True)[0] for line in lines]
    assert chosen == ["en", "de", "de", "de", "de", "en", "en"]
    notes = capsys.readouterr().err.splitlines()
    assert [note.split(";")[0] for note in notes] == [
        "note: here: too little text to tell its language",
        "note: here: too little text to tell its language",  # it goes into the other direction now
        "note: here looks like French",
    ]


def test_what_is_named_is_not_guessed() -> None:
    assert Directions(BOTH, "en", None).choose(GERMAN, "here") == ("en", "de")
    assert Directions(BOTH, None, "EN").choose(ENGLISH, "here") == ("de", "en")
    assert Directions(BOTH, "de-AT", "en").choose(ENGLISH, "here") == ("de", "en")
    with pytest.raises(UserError, match=r"this looks like English, which is not translated here \(only de -> en\)"):
        Directions(BOTH, "auto", "en").choose(ENGLISH, "here")
    with pytest.raises(UserError, match="does not translate fr"):
        Directions(BOTH, "fr", None)
    assert Directions(DataConfig(), None, None).choose(OTHERS["fr"], "here") == ("src", "tgt")
