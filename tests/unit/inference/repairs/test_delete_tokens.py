"""Single tokens that K = 1 marks by DEL are left out, and nothing else is."""

import pytest

from recoversat.config import parse_config
from recoversat.errors import UserError
from recoversat.measuring.specs import parse_system
from recoversat.translator import Translator
from tests.unit.inference.by_count import ByCount, writes

SCRIPTS = {
    ("no 7 8", 2): ["7 8 EOS", "8 number EOS"],
    ("no 8", 2): ["8 EOS", "no EOS"],
    ("7 7", 2): ["EOS", "EOS"],
    ("7 8", 2): ["7 no EOS", "no number EOS"],
    ("no", 1): ["7 EOS"],
}


def marking(marks: dict[str, list[float]], **decode: object) -> Translator:
    """Make a translator whose K = 1 marks the words of some drafts."""
    translator = writes(SCRIPTS, delete_tokens=True, **decode)
    asked: list[str] = []

    class Marking(ByCount):
        def deletions(self, pairs):
            texts = [translator.tokenizer.decode(target) for _, target in pairs]
            asked.extend(texts)
            return [marks.get(text, [0.0] * len(target)) for text, (_, target) in zip(texts, pairs, strict=True)]

    translator.engine = Marking(translator.engine._scripts)
    translator.asked = asked
    return translator


def test_marked_tokens_are_left_out_for_one_call_of_the_model() -> None:
    translator = marking({"7 8 8 number": [0.1, 0.2, 0.9, 0.5], "8 no": [0.9, 0.9]})
    marked, all_marked, empty, single = translator.translate(["no 7 8", "no 8", "7 7", "no"])
    assert (marked.text, marked.repairs, marked.steps) == ("7 8 number", ("delete_tokens",), 3 + 1)
    assert [segment.left_out for segment in marked.segments] == [frozenset(), frozenset({0})]
    assert (all_marked.text, all_marked.repairs) == ("8 no", ())  # nothing would be left
    assert (empty.text, single.text, single.steps) == ("", "7", 2)
    assert translator.asked == ["7 8 8 number", "8 no"]  # neither what is empty nor what K = 1 wrote itself
    (raw,) = translator.translate(["no 7 8"], repairs=False)
    assert (raw.text, raw.steps) == ("7 8 8 number", 3)


def test_overlaps_are_joined_before() -> None:
    translator = marking({"7 no number": [0.9, 0.0, 0.0]}, join_overlaps=True)
    (one,) = translator.translate(["7 8"])
    assert (one.text, one.repairs) == ("no number", ("join_overlaps", "delete_tokens"))
    assert translator.asked == ["7 no number"]


def test_a_model_that_was_not_trained_for_it_is_refused() -> None:
    with pytest.raises(UserError, match=r"trained with train\.delete_tokens"):
        parse_config({"decode": {"delete_tokens": True}})
    with pytest.raises(UserError, match="no DEL to learn"):
        parse_config({"model": {"kind": "nat"}, "train": {"segments": 1, "delete_tokens": 0.2}})
    assert parse_system("k10=run:overlaps=keep:delete_tokens=true").decode["delete_tokens"] == "true"
