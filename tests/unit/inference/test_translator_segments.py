"""How many segments a sentence is written in, and in which direction it is translated."""

import numpy as np
import pytest

from recoversat.config import DataConfig, parse_config
from recoversat.errors import UserError
from recoversat.files.model_folder import builtin_model
from recoversat.text.directions import choose_direction, known_language
from recoversat.translator import Translator
from tests.unit.inference.by_count import numbers

BOTH = DataConfig(src_lang="en", tgt_lang="de", both_directions=True)


class Unused:
    """An engine that is never asked."""

    max_segments = 16


def translator(choices: int | list[int], segment_length: float = 4.0) -> Translator:
    config = parse_config(
        {
            "model": {"max_segments": 16},
            "train": {"segments": choices},
            "decode": {"segment_length": segment_length},
        }
    )
    return Translator.of(Unused(), None, config)  # type: ignore[arg-type]


def test_auto_takes_the_least_k_that_keeps_segments_short() -> None:
    mixed = translator([1, 2, 4, 8])
    assert mixed.segment_counts("auto", [1, 4, 5, 8, 9, 16, 17, 32, 33, 500]).tolist() == [1, 1, 2, 2, 4, 4, 8, 8, 8, 8]
    assert translator([1, 2, 4, 8], 2.0).segment_counts("auto", [4, 5]).tolist() == [2, 4]


def test_auto_takes_no_more_segments_than_it_may() -> None:
    mixed = translator([1, 2, 4, 8])
    mixed.set_decoding(most_segments=5)
    assert mixed.segment_counts("auto", [1, 8, 9, 17, 500]).tolist() == [1, 2, 4, 4, 4]
    assert mixed.segment_counts(8, [500]).tolist() == [8]  # what is named stands
    mixed.set_decoding(most_segments=1)
    assert mixed.segment_counts(None, [500]).tolist() == [1]
    other = translator([4, 8])
    other.set_decoding(most_segments=2)
    assert other.segment_counts("auto", [500]).tolist() == [4]  # the least it has learnt


@pytest.mark.parametrize("length", range(1, 65))
def test_steps_hardly_grow_with_the_length(length: int) -> None:
    (k,) = translator(list(range(1, 17))).segment_counts("auto", [length])
    assert np.ceil(length / k) <= 4


def test_a_model_of_many_k_decides_by_length_and_a_model_of_one_does_not() -> None:
    assert translator([2, 8]).segment_counts(None, [4, 40]).tolist() == [2, 8]
    assert translator(5).segment_counts(None, [4, 40]).tolist() == [5, 5]
    assert translator(5).segment_counts("auto", [4, 40]).tolist() == [5, 5]
    assert translator([2, 8]).segment_counts(3, [4, 40]).tolist() == [3, 3]
    with pytest.raises(UserError, match="writes 1 to 16 segments"):
        translator(5).segment_counts(17, [4])


def test_the_direction_is_chosen_by_either_language() -> None:
    assert choose_direction(BOTH, None, None) == ("en", "de")
    assert choose_direction(BOTH, None, "en") == choose_direction(BOTH, "de", None) == ("de", "en")
    with pytest.raises(UserError, match="does not translate anything into fr: only en into de, de into en"):
        choose_direction(BOTH, None, "fr")
    with pytest.raises(UserError, match="does not translate de into anything: only en into de"):
        choose_direction(BOTH.model_copy(update={"both_directions": False}), "de", None)


@pytest.mark.parametrize(("source", "target"), [("EN", None), (None, "de-DE"), ("en_US", "DE"), ("En-gb", "de_AT")])
def test_case_and_region_of_a_language_are_forgiven(source: str | None, target: str | None) -> None:
    assert choose_direction(BOTH, source, target) == ("en", "de")
    assert builtin_model(source, target) == builtin_model("en", "de")


def test_a_code_is_first_of_all_itself() -> None:
    known = ["pt", "pt-BR", "zh-Hans", "EN"]
    asked = ["pt-BR", "pt_br", "pt-PT", "zh-hans", "zh", "zh-Hant", "en", ""]
    meant = ["pt-BR", "pt-BR", "pt", "zh-Hans", "zh", "zh-Hant", "EN", ""]
    assert [known_language(code, known) for code in asked] == meant
    with pytest.raises(UserError, match="does not translate fr-CA into anything: only en into de, de into en"):
        choose_direction(BOTH, "fr-CA", None)


def test_a_missing_built_in_model_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"no built-in model translates from xx into yy: .* a model of your own"):
        builtin_model("xx", "yy")


def test_a_text_too_long_for_the_model_is_translated_in_parts(scripted) -> None:
    translator = scripted({"a b": ["the house EOS", "EOS"], "c": ["in EOS", "EOS"], "b": ["EOS", "the EOS"]})
    short = translator.config.data.model_copy(update={"max_tokens": 2})
    translator.config = translator.config.model_copy(update={"data": short})
    long, alone, empty = translator.translate(["a b  c", "b", ""])
    assert (long.text, alone.text, empty.text) == ("the house  in", "the", "")
    assert long.source == "a b  c"
    assert [segment.text for segment in long.segments] == ["the house", "", "in", ""]
    assert long.steps == 5  # three for the first part, two for the second


def test_a_decoding_setting_that_does_not_exist_is_refused(scripted) -> None:
    with pytest.raises(UserError, match=r"decode\.join_overlap"):
        scripted({"a": ["the EOS"]}).set_decoding(join_overlap=True)


def test_white_space_around_a_text_stays(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    assert [t.text for t in translator.translate(["  a b\t", "a b"])] == ["  the house\t", "the house"]


def test_wrong_arguments_are_named(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    with pytest.raises(UserError, match=r"write translate\(\[text\]\)"):
        translator.translate("a b")
    for wrong in ({"segments": "7"}, {"segments": 2.5}, {"batch_size": 0}, {"beam": 0}):
        with pytest.raises(UserError, match="whole number"):
            translator.translate(["a b"], **wrong)


def test_a_beam_takes_one_segment_where_nobody_names_k(scripted) -> None:
    assert numbers(check=False).translate(["no 7 8"], beam=2)[0].text == "7 8"
    with pytest.raises(UserError, match="beam search writes one segment"):
        numbers(check=False).translate(["no 7 8"], beam=2, segments=2)
