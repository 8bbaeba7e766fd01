"""recipes/builtin/dictionary.py: which pairs an entry of Ding becomes."""

import importlib
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from recoversat.errors import UserError

RECIPE = Path(__file__).parents[2] / "recipes" / "builtin"
HOUSE = (
    "Haus {n} [constr.] | Häuser {pl} | jds. Haus {n}; jds. Stadthaus (zusätzlich) | (allein) im Haus bleiben "
    "| Das Haus ist alt. :: house /hse/ | houses | sb.’s town house | to stay in the house (alone) | The house is old."
)


@pytest.fixture
def dictionary(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(RECIPE)
    yield importlib.import_module("dictionary")
    for name in ("dictionary", "pairs", "phrases"):
        sys.modules.pop(name, None)


def both(dictionary: ModuleType, *lines: str, english: str = "", german: str = "") -> list[list[tuple[str, str]]]:
    """Return (source, target) from English and from German."""
    parts = [part for line in lines for part in dictionary.entry(line)]
    frequencies = dictionary.Frequencies([english], [german])
    from_english, from_german = (list(dictionary.directed(parts, frequencies, way)) for way in (0, 1))
    return [from_english, [(german, english) for english, german in from_german]]


def test_parts_are_pairs_of_their_own_without_marks(dictionary: ModuleType) -> None:
    from_english, from_german = both(dictionary, HOUSE)
    assert from_english == [
        ("house", "Haus"), ("houses", "Häuser"), ("someone's town house", "jemandes Haus"),
        ("to stay in the house", "im Haus bleiben"), ("The house is old.", "Das Haus ist alt."),
    ]  # fmt: skip
    assert ("jemandes Stadthaus", "someone's town house") in from_german
    assert len(from_german) == 6


def test_every_synonym_is_a_source_and_the_first_usual_one_the_target(dictionary: ModuleType) -> None:
    line = (
        "Augengläser {pl} [Ös.]; Brille {f}; Gestell {n} [ugs.] (a; b) :: specs [dated]; glasses; spectacles [formal]"
    )
    from_english, from_german = both(dictionary, line)
    assert from_english == [("specs", "Brille"), ("glasses", "Brille"), ("spectacles", "Brille")]
    assert from_german == [("Augengläser", "glasses"), ("Brille", "glasses"), ("Gestell", "glasses")]


def test_a_source_keeps_its_most_frequent_targets(dictionary: ModuleType) -> None:
    german = "Bank {f}", "Ufer {n}", "Böschung {f}", "Hang {m}", "Gruppe {f}"
    text = "Bank " * 60 + "Ufer " * 50 + "Hang " * 40 + "Böschung Gruppe " * 2
    from_english, _ = both(dictionary, *(f"{one} :: bank" for one in german), german=text)
    assert from_english == [("bank", "Bank"), ("bank", "Ufer"), ("bank", "Hang")]
    rare, _ = both(dictionary, "Bank {f} :: bank", "Gruppe {f} :: bank", german="Bank " * 101 + "Gruppe " * 2)
    assert rare == [("bank", "Bank")]


@pytest.mark.parametrize(
    "line",
    [
        "Wohnung {f} in einem hohen Haus ohne Aufzug und Lift :: walk-up",  # an explanation
        "A- {n} :: A-", "Haus/Wirt :: house", "Es regnet. :: it rains", "etw. sehen :: to see sb.", "2 mal :: 3 times",
        "Tee {m} :: Tee", "eins | zwei :: one",
    ],
)  # fmt: skip
def test_what_is_unaligned_or_not_clean_is_left_out(dictionary: ModuleType, line: str) -> None:
    assert both(dictionary, line) == [[], []]


def test_homographs_that_differ_in_capitals_stay(dictionary: ModuleType) -> None:
    assert both(dictionary, "Bank {f} :: bank") == [[("bank", "Bank")], [("Bank", "bank")]]


def test_names_of_specialist_fields_are_taken_where_the_text_has_them(dictionary: ModuleType) -> None:
    line = "Rabe {m} [ornith.] :: raven"
    assert both(dictionary, line, english="a raven") == [[], []]
    assert both(dictionary, line, english="a raven", german="ein Rabe")[0] == [("raven", "Rabe")]


def test_placeholders_are_words_and_the_same_on_both_sides(dictionary: ModuleType) -> None:
    from_english, _ = both(
        dictionary, "jdn./etw. suchen {vt} | er/sie sucht :: to seek sb./sth. {sought; sought} | he/she seeks"
    )
    assert from_english == [("to seek someone", "jemanden suchen"), ("he seeks", "er sucht")]


def around(dictionary: ModuleType, line: str, english: str) -> set[tuple[str, str]]:
    """Return what a word is put into over many draws."""
    frequencies = dictionary.Frequencies([english], [])
    parts = dictionary.entry(line)
    return {pair for seed in range(300) for pair in dictionary.sentences(parts, frequencies, random.Random(seed))}


def test_nouns_stand_in_sentences_with_their_article(dictionary: ModuleType) -> None:
    made = around(dictionary, "Schreibtisch {m} | Schreibtische {pl} :: desk | desks", "desk")
    assert ("I'm looking for the desk.", "Ich suche den Schreibtisch.") in made
    assert ("That is a desk.", "Das ist ein Schreibtisch.") in made
    assert ("Where are the desks?", "Wo sind die Schreibtische?") in made
    assert ("I have never liked desks.", "Schreibtische habe ich noch nie gemocht.") in made


def test_a_noun_whose_cases_are_not_known_stands_in_the_plural_alone(dictionary: ModuleType) -> None:
    made = around(dictionary, "Präsident {m} | Präsidenten {pl} :: president | presidents", "president")
    assert made
    assert all("Präsidenten" in german for _, german in made)


@pytest.mark.parametrize(
    "line",
    [
        "Wissen {n} :: knowledge",  # no plural: may not be counted
        "Wissen {n} | Allgemeinwissen {n} :: knowledge | lore",
        "Rabe {m} [ornith.] | Raben {pl} :: raven | ravens",
        "sich die Haare waschen {vr} :: to wash one’s hair",
        "gegangen {v} :: gone",
    ],
)
def test_what_a_sentence_could_make_wrong_is_left_alone(dictionary: ModuleType, line: str) -> None:
    assert not around(dictionary, line, "knowledge raven to wash one's hair gone")


def test_verbs_follow_a_verb_and_sich_a_third_person(dictionary: ModuleType) -> None:
    made = around(dictionary, "nach Hause gehen {vi} :: to go home", "to go home")
    assert {
        ("Can you go home?", "Kannst du nach Hause gehen?"),
        ("He had to go home.", "Er musste nach Hause gehen."),
    } <= made
    made = around(dictionary, "schlafen {vi} :: to sleep", "to sleep")
    assert ("They could not sleep.", "Sie konnten nicht schlafen.") in made
    made = around(dictionary, "sich schämen {vr} :: to be ashamed", "to be ashamed")
    assert ("He had to be ashamed.", "Er musste sich schämen.") in made
    assert not any(re.match("Ich|Wir |Du|Kannst|Lasst|Dürfen", german) for _, german in made)
    assert not any(re.search("(nicht|wieder|öfter|morgen) sich", german) for _, german in made)


def test_adjectives_stand_after_a_verb_if_the_text_knows_them(dictionary: ModuleType) -> None:
    line = "müde {adj} :: tired"
    assert ("It was very tired.", "Es war sehr müde.") in around(dictionary, line, "tired")
    assert not around(dictionary, line, "happy")


def test_both_lists_are_written_without_what_a_model_is_judged_with(
    dictionary: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = importlib.import_module("phrases").pairs_of(RECIPE / "first.tsv")[0]
    ding = tmp_path / "ding"
    ding.write_text(f"# Version\n{HOUSE}\n{judged[1]} :: {judged[0]}\n", encoding="utf-8")
    for side, line in (("en", "the house"), ("de", "das Haus")):
        (tmp_path / f"pairs.{side}").write_text(f"{line}\n")
    (tmp_path / "test.de").write_text("im Haus: BLEIBEN!\n")
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), "--ding", str(ding), "--without", str(tmp_path / "test.de")])
    dictionary.main()
    for name, count in (("from-en", 6), ("from-de", 7)):
        english, german = ((tmp_path / f"{name}.{side}").read_text().splitlines() for side in ("en", "de"))
        assert len(english) == len(german) == count
        assert ("houses", "Häuser") in zip(english, german, strict=True)
        assert judged[0] not in english
        assert "im Haus bleiben" not in german
    assert "from-en 6 pairs, 2 of them sentences" in capsys.readouterr().out


def test_a_missing_dictionary_names_its_package(dictionary: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="apt-get install trans-de-en"):
        dictionary.read(tmp_path / "none")


def test_the_command_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, str(RECIPE / "dictionary.py"), "--help"], capture_output=True, text=True, check=True
    )
    assert "GPL-2 or later" in done.stdout
