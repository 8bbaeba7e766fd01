"""Tabs and runs of blanks."""

import pytest

from recoversat.inference.repairs.keep_spacing import columns, spaced_alike


def test_columns_are_translated_by_themselves(scripted) -> None:
    translator = scripted({"gas": ["the EOS"], "house a": ["in EOS"], "gas house a": ["b c EOS"]})
    translator.set_decoding(keep_spacing=True)
    table, run, spread = translator.translate([" gas\thouse a ", "gas     house a", "gas  house a"])
    assert table.text == " the\tin "
    assert run.text == "the     in"
    assert (spread.text, spread.repairs) == ("b  c", ("keep_spacing",))  # one sentence with a slip in it
    assert table.source == " gas\thouse a "


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("a\t\tb", ["a", "b"]),
        ("a   b", ["a", "b"]),
        ("a  b", None),
        ("He   is here.", None),
        ("He is\there.", ["He is", "here."]),
        ("\ta\t", None),
        ("   a", None),
        ("   ", None),
    ],
)
def test_columns(text: str, cells: list[str] | None) -> None:
    found = columns(text)
    assert (found and found.texts) == cells
    assert found is None or found.joined(found.texts) == text


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hello     world", "Hallo Welt", "Hallo     Welt"),
        ("One.  Two", "Eins. Zwei", "Eins.  Zwei"),
        ("We saw it;  they did not", "Wir haben es gesehen; sie nicht", "Wir haben es gesehen;  sie nicht"),
        ("a  b", "ab", "ab"),
        ("  a b", "a b", "a b"),
    ],
)
def test_runs_are_put_back(source: str, translation: str, expected: str) -> None:
    assert spaced_alike(source, translation) == expected
