"""Translations that say nothing."""

import pytest

from recoversat.vocab import EOS
from tests.unit.conftest import PIECES


def test_where_nothing_was_written_the_likeliest_word_is(scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = scripted({"a": ["EOS", "DEL"], "b": ["in EOS", "the EOS"]})
    silent, spoken = translator.translate(["a", "b"])
    assert (silent.text, silent.steps, spoken.text) == ("", 1, "in the")
    translator.set_decoding(never_empty=True)
    word, same = translator.translate(["a", "b"])
    assert (word.text, word.segments[0].text, word.steps) == (PIECES[0], PIECES[0], 1 + 1 + 2)  # seen, looked, written
    assert (same.text, same.steps, same.repairs) == ("in the", 2, ())
    assert (word.repairs, translator.tokenizer.pieces(word.ids)) == (("never_empty",), [PIECES[0]])
    (between_blanks,) = translator.translate(["  a "])  # "   " was written, which says nothing either
    assert (between_blanks.text, between_blanks.repairs) == (f"  {PIECES[0]} ", ("never_empty",))
    assert translator.translate(["a"], forced=[{(1, 0): EOS}])[0].text == ""  # as it was wished
    monkeypatch.setattr("recoversat.inference.repairs.never_empty._FIRST_WORDS", 1)  # no word among what is likely
    copied, _ = translator.translate(["a", "b"])
    assert (copied.text, copied.repairs, translator.tokenizer.pieces(copied.ids)) == ("a", ("never_empty",), ["a"])
