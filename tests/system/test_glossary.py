"""A glossary is obeyed by the built-in model, from Python, the command line and over HTTP."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recoversat import Translator, UserError
from recoversat.cli import app

LINE = "The old dog sleeps in front of the house, and the children play in the garden."
TERMS = {"dog": "Köter", "house": "Gebäude", "garden": "="}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(source="en", target="de", intra_threads=1)


def test_terms_are_obeyed_and_the_rest_stays(translator: Translator) -> None:
    plain = translator.translate([LINE, "Good morning!"])
    asked = translator.translate([LINE, "Good morning!"], glossary=TERMS)
    assert all(word not in plain[0].text for word in ("Köter", "Gebäude", "garden"))
    assert all(word in asked[0].text for word in ("Köter", "Gebäude", "garden", "Kinder spielen"))
    assert "Hund" not in asked[0].text
    assert "glossary" in asked[0].repairs
    assert asked[0].steps > plain[0].steps
    assert translator.tokenizer.decode(asked[0].ids) == asked[0].text
    assert asked[1] == plain[1]


def test_the_term_stands_in_its_own_place(translator: Translator) -> None:
    line = "Two young dogs run across the green field and play with a red ball."
    (one,) = translator.translate([line], glossary={"green field": "Weide"})
    assert "Weide" in one.text
    assert "Feld" not in one.text
    assert one.text.startswith("Zwei junge Hunde")


def test_what_obeys_already_is_left_alone(translator: Translator) -> None:
    (plain,) = translator.translate([LINE])
    (asked,) = translator.translate([LINE], glossary={"dog": "Hund", "children": "Kind", "nowhere": "x"})
    assert (asked.text, asked.repairs, asked.steps) == (plain.text, plain.repairs, plain.steps)


@pytest.mark.parametrize("options", [{"segments": 1}, {"segments": 4}, {"quality": "exact"}, {"beam": 2}])
def test_every_way_of_decoding_obeys(translator: Translator, options: dict[str, object]) -> None:
    (one,) = translator.translate([LINE], glossary={"dog": "Köter"}, confidence=True, **options)  # type: ignore[arg-type]
    assert "Köter" in one.text
    assert one.confidence is not None


def test_texts_pages_and_streams_obey(translator: Translator) -> None:
    assert "Köter" in translator.translate_text("The dog sleeps.\nThe dog sleeps.", glossary=TERMS).splitlines()[1]
    assert "Köter" in translator.translate_html("<p>The dog sleeps.</p>", glossary=TERMS)
    assert "Köter" in next(translator.translate_iterable(["The dog sleeps."], glossary=TERMS)).text
    other = translator.into("de")
    other.set_glossary(TERMS)
    assert "Köter" in other.translate(["The dog sleeps."])[0].text
    assert "Hund" in other.translate(["The dog sleeps."], glossary={"dog": "Hund"})[0].text
    assert "Köter" not in translator.translate(["The dog sleeps."])[0].text
    forced = other.translate(["The dog sleeps."], segments=2, force=["1:1=Ein"])
    assert forced[0].text.startswith("Ein")


def test_a_glossary_goes_without_forced_words(translator: Translator) -> None:
    with pytest.raises(UserError, match="a glossary goes without forced words"):
        translator.translate([LINE], segments=2, force=["1:1=Ein"], glossary=TERMS)


def test_the_command_line_obeys(tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tKöter\n", encoding="utf-8")
    command = ["translate", "--from", "en", "--to", "de", "--threads", "1", "--glossary", str(terms)]
    runner = CliRunner()
    assert "Köter" in runner.invoke(app, command, input="The dog sleeps.\n").stdout
    jsonl = runner.invoke(app, [*command, "--jsonl"], input=json.dumps({"text": "The dog sleeps.", "id": 7}) + "\n")
    record = json.loads(jsonl.stdout)
    assert (record["id"], "Köter" in record["translation"]) == (7, True)
    assert "Köter" in runner.invoke(app, [*command, "--format", "html"], input="<p>The dog sleeps.</p>").stdout
    terms.write_text("dog\tKöter\tno\n", encoding="utf-8")
    assert "line 1: no rule 'no'" in str(runner.invoke(app, command, input="x\n").exception)
    refused = runner.invoke(app, [*command, "--force", "1:1=Ein"], input="x\n").exception
    assert "--glossary goes without --force" in str(refused)


def test_lines_that_are_not_sure_are_left_or_marked() -> None:
    command = ["translate", "--from", "en", "--to", "de", "--threads", "1", "--min-confidence"]
    lines, runner = ["Good morning!", "The children play in the garden."], CliRunner()
    sure = Translator(source="en", target="de").translate(lines, confidence=True)
    bound = sum(one.confidence or 0 for one in sure) / 2
    doubtful = [(one.confidence or 0) < bound for one in sure]
    assert sorted(doubtful) == [False, True]
    plain = runner.invoke(app, [*command, str(bound)], input="\n".join(lines) + "\n")
    expected = [one.source if doubt else one.text for one, doubt in zip(sure, doubtful, strict=True)]
    assert plain.stdout.splitlines() == expected
    assert "1 lines are not translated" in plain.stderr
    records = "".join(json.dumps({"text": line}) + "\n" for line in lines)
    jsonl = runner.invoke(app, [*command, str(bound), "--jsonl"], input=records).stdout
    marked = [json.loads(line) for line in jsonl.splitlines()]
    assert [one.get("doubtful", False) for one in marked] == doubtful
    assert [one["translation"] for one in marked] == [one.text for one in sure]
    assert all(0 <= one["confidence"] <= 1 for one in marked)
    broken = json.dumps({"text": "\n".join(lines)}) + "\n" + json.dumps({"text": f"{lines[0]}\n{lines[0]}"}) + "\n"
    both, single = map(
        json.loads, runner.invoke(app, [*command, str(bound), "--jsonl"], input=broken).stdout.split("\n")[:2]
    )
    assert both["translation"] == "\n".join(one.text for one in sure)
    assert both["confidence"] == min(one["confidence"] for one in marked)
    assert both["doubtful"]
    assert (single["confidence"], single.get("doubtful", False)) == (marked[0]["confidence"], doubtful[0])
    refused = runner.invoke(app, [*command, "0.5", "--format", "text"], input="x").exception
    assert "goes without" in str(refused)
