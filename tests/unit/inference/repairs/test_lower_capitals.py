"""Text in capitals."""

import pytest


@pytest.mark.parametrize("lower", [True, False])
def test_capitals_are_translated_in_small_letters_where_the_model_asks_for_it(scripted, lower: bool) -> None:
    translator = scripted(
        {"Gas house": ["the EOS", "house EOS"], "GAS HOUSE": ["a EOS", "EOS"], "a b": ["in EOS", "EOS"]}
    )
    translator.set_decoding(lower_capitals=lower)
    capitals, small = translator.translate(["GAS HOUSE", "a b"])
    assert (capitals.source, capitals.text) == ("GAS HOUSE", "THE HOUSE" if lower else "a")
    assert capitals.repairs == (("lower_capitals",) if lower else ())
    assert capitals.ids == translator.tokenizer.encode(["THE HOUSE" if lower else "a"])[0]  # those of the text
    assert (small.text, small.repairs) == ("in", ())
