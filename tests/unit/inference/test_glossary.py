"""A sentence that lacks a term is written again, with the term at the beginning of a segment."""

from collections import defaultdict

import pytest

from recoversat.errors import UserError
from recoversat.translator import Translator
from recoversat.vocab import EOS
from tests.unit.inference.by_count import writes

SCRIPTS = {
    ("no 7 8", 2): ["no EOS", "7 8 EOS"],
    ("no number 8", 2): ["8 EOS", "8 EOS"],  # the mixed source, which does not help here
}


@pytest.fixture
def translator() -> Translator:
    """All that is only scored is as likely as anything else."""
    made = writes(SCRIPTS)
    made.engine._scripts = defaultdict(lambda: [[EOS]], made.engine._scripts)  # type: ignore[attr-defined]
    return made


def test_a_segment_begins_with_the_term(translator: Translator) -> None:
    (plain,) = translator.translate(["no 7 8"])
    (obeying,) = translator.translate(["no 7 8"], glossary={"7": "number"})
    assert (plain.text, plain.repairs) == ("no 7 8", ())
    # in the first segment it would have a capital, which this model cannot spell
    assert (obeying.text, obeying.repairs) == ("no number 8", ("glossary",))
    assert [segment.text for segment in obeying.segments] == ["no", "number 8"]
    assert translator.tokenizer.decode(obeying.ids) == obeying.text
    assert obeying.steps == plain.steps + 3 + 1  # written again, and judged


def test_a_glossary_is_obeyed_without_repairs_too(translator: Translator) -> None:
    assert translator.translate(["no 7 8"], glossary={"7": "number"}, repairs=False)[0].text == "no number 8"


def test_what_cannot_be_obeyed_stays(translator: Translator) -> None:
    (one,) = translator.translate(["no 7 8"], glossary={"7": "unknown"})
    assert (one.text, one.repairs) == ("no 7 8", ())


def test_terms_of_a_call_win_over_those_of_the_translator(translator: Translator) -> None:
    translator.set_glossary({"7": "unknown"})
    assert translator.translate(["no 7 8"], glossary={"7": "number"})[0].text == "no number 8"
    translator.set_glossary(None)
    assert translator.translate(["no 7 8"])[0].text == "no 7 8"


def test_a_one_step_model_refuses_a_glossary(translator: Translator) -> None:
    model = translator.config.model.model_copy(update={"kind": "nat"})
    translator.config = translator.config.model_copy(update={"model": model})
    with pytest.raises(UserError, match="one of kind 'nat' cannot be given terms"):
        translator.set_glossary({"7": "number"})
