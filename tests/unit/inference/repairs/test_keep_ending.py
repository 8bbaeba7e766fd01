"""The last mark of a sentence."""

import pytest

from recoversat.inference.repairs.keep_ending import ended_alike


@pytest.mark.parametrize(
    ("source", "translation", "wanted"),
    [
        ("Who is there?", "Wer ist da.", "Wer ist da?"),
        ("Stop!", "Halt", "Halt!"),
        ("Well...", "Nun…", "Nun…"),
        ("Well…", "Nun.", "Nun…"),
        ('He asked: "Who?" ', "Er fragte: „Wer.“ ", "Er fragte: „Wer?“ "),
        ("(He left.)", "(Er ging)", "(Er ging.)"),
        ("dogs, cats and so on", "Hunde usw.", "Hunde usw."),
        ("Who?", "", ""),
        ("Who?", " ", " "),
        ("?", "?", "?"),
        ("What?!", "Was?", "Was?!"),
    ],
)
def test_a_translation_ends_as_its_source(source: str, translation: str, wanted: str) -> None:
    assert ended_alike(source, translation) == wanted


def test_it_is_off_unless_a_model_asks_for_it(scripted) -> None:
    translator = scripted({"a ?": ["the EOS", "house EOS"], "a b": ["in EOS", "EOS"]})
    assert [t.text for t in translator.translate(["a ?", "a b"])] == ["the house", "in"]
    translator.set_decoding(keep_ending=True)
    question, other = translator.translate(["a ?", "a b"])
    assert (question.text, question.repairs) == ("the house?", ("keep_ending",))
    assert question.ids == translator.tokenizer.encode(["the house?"])[0]
    assert (other.text, other.repairs) == ("in", ())
