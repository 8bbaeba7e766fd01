"""Glossaries: how they are read, which terms a text has, and what obeys them."""

import pickle
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.text.glossary import Glossary, Term, Wanted


def read(tmp_path: Path, text: str) -> Glossary:
    (tmp_path / "terms.tsv").write_text(text, encoding="utf-8")
    return Glossary.read(tmp_path / "terms.tsv")


def test_a_file_has_terms_rules_comments_and_blank_lines(tmp_path: Path) -> None:
    glossary = read(tmp_path, "# house words\n\nhouse\tHaus\nGNU\t=\nLinux\nMay\tMai\tcase\nbank \t Ufer\texact\n")
    assert glossary.terms == (
        Term("house", "Haus"),
        Term("GNU"),
        Term("Linux"),
        Term("May", "Mai", "case"),
        Term("bank", "Ufer", "exact"),
    )
    assert pickle.loads(pickle.dumps(glossary)) == glossary
    assert Glossary.of(tmp_path / "terms.tsv") == Glossary.of(glossary) == glossary


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb\tc\td", "line 2: 4 columns; write a term"),
        ("\tHaus", "line 2: there is no term"),
        ("house\t!", "line 2: '!' is no translation"),
        ("house\tHaus\tloud", "line 2: no rule 'loud'; there are 'case' and 'exact'"),
        ("TERM\tHütte", "line 2: 'TERM' is already 'Haus'; keep one"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, f"term\tHaus\n{line}\n")


def test_what_is_no_glossary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such glossary"):
        Glossary.of(str(tmp_path / "none.tsv"))
    with pytest.raises(UserError, match="a glossary is a plain file"):
        Glossary.of(tmp_path)
    with pytest.raises(UserError, match="expected a mapping of terms or a file, not list"):
        Glossary.of(["house"])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="glossary, '': there is no term"):
        Glossary.of({"": "Haus"})


def test_a_file_without_tabs_says_that_all_its_terms_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(tmp_path, "house,Haus\n").terms == (Term("house,Haus"),)
    assert "terms.tsv: no line has a tab, so all its terms stay as they are" in capsys.readouterr().err
    read(tmp_path, "# nothing\n")
    read(tmp_path, "GNU\nhouse\tHaus\n")
    assert capsys.readouterr().err == ""


def found(glossary: Glossary, text: str, language: str = "en") -> list[str]:
    return [text[one.start : one.end] for one in glossary.wanted(text, language)]


def test_terms_are_whole_words_the_longest_first() -> None:
    glossary = Glossary.of({"house": "Haus", "house boat": "Hausboot", "C++": "="})
    assert found(glossary, "Houses, the house boat, a housekeeper") == ["Houses", "house boat"]
    assert found(glossary, "a house-boat in C++, or C++x") == ["house", "C++"]
    assert found(glossary, "a house boating trip") == ["house"]
    assert found(glossary, "in-house house's") == ["house"]  # each once


def test_rules_say_what_counts_as_the_term() -> None:
    terms = (Term("May", "Mai", "case"), Term("bank", "Ufer", "exact"), Term("Apple"))
    assert found(Glossary(terms), "It may be May; apples of Apple; banks, the bank") == ["May", "Apple", "bank"]
    assert found(Glossary.of({"Haus": "house"}), "Des Hauses, im Hausen, Hausmann", "de") == ["Hauses"]
    assert found(Glossary.of({"Haus": "house"}), "Des Hauses", "fr") == []


@pytest.mark.parametrize(
    ("target", "text", "obeys"),
    [
        ("Haus", "im Hause", True),
        ("Haus", "viele Häuser", True),
        ("Garten", "der Vorgarten", True),
        ("Garten", "die Gartentür", True),
        ("Zahl", "die Anzahl", False),
        ("Haus", "wir hausen", False),
        ("Europäische Union", "der Europäischen Union", True),
        ("Europäische Union", "Europäische, Union", False),
        ("laufen", "Laufen ist gesund", True),
    ],
)
def test_inflected_forms_and_compounds_obey(target: str, text: str, obeys: bool) -> None:
    wanted = Wanted(0, 1, target, inflected=True)
    assert bool(wanted.find_in(text, "de")) is obeys
    assert bool(wanted.find_in(text, "de", alone=True)) is (obeys and target != "Garten")


def test_what_is_exact_is_not_inflected() -> None:
    exact = Wanted(0, 1, "Apple", inflected=False)
    assert [bool(exact.find_in(text, "de")) for text in ("von Apple.", "Apples", "apple", "Applebaum")] == [
        True,
        False,
        False,
        False,
    ]


def test_of_two_glossaries_the_upper_one_counts() -> None:
    own, general = Glossary.of({"House": "Hütte"}), Glossary.of({"house": "Haus", "tree": "Baum"})
    assert [(one.source, one.target) for one in own.over(general).terms] == [("House", "Hütte"), ("tree", "Baum")]
    assert own.over(None) is own
