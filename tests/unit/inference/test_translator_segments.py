"""How many segments a sentence is written in, and in which direction it is translated."""

import numpy as np
import pytest

from recoversat.config import DataConfig, parse_config
from recoversat.errors import UserError
from recoversat.files.builtin import builtin_model
from recoversat.text.directions import choose_direction, known_language
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.translator import Translator
from recoversat.vocab import EOS, SPECIAL_PIECES
from tests.unit.conftest import PIECES, ScriptedStepper

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
    with pytest.raises(UserError, match=r"no built-in model translates from xx into yy: .*--model"):
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


def test_what_is_said_again_and_again_is_said_once(scripted) -> None:
    translator = scripted({"a b": ["the the the the EOS", "house EOS"]})
    assert [t.text for t in translator.translate(["a b"])] == ["the the the the house"]
    careful = translator.config.decode.model_copy(update={"cut_loops": True})
    translator.config = translator.config.model_copy(update={"decode": careful})
    (translation,) = translator.translate(["a b"])
    assert translation.text == "the house"
    assert translation.segments[0].text == "the the the the"  # as it was written


def test_what_two_segments_both_say_is_said_once(scripted) -> None:
    translator = scripted({"a b": ["in the EOS", "the house EOS"]})
    assert [t.text for t in translator.translate(["a b"])] == ["in the the house"]
    translator.set_decoding(join_overlaps=True)
    (translation,) = translator.translate(["a b"])
    assert translation.text == "in the house"
    assert translator.tokenizer.decode(translation.ids) == "in the house"
    assert [(segment.text, segment.overlap) for segment in translation.segments] == [("in the", 0), ("the house", 1)]


def test_where_nothing_was_written_the_likeliest_word_is(scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = scripted({"a": ["EOS", "DEL"], "b": ["in EOS", "the EOS"]})
    silent, spoken = translator.translate(["a", "b"])
    assert (silent.text, silent.steps, spoken.text) == ("", 1, "in the")
    translator.set_decoding(never_empty=True)
    word, same = translator.translate(["a", "b"])
    assert (word.text, word.segments[0].text, word.steps) == (PIECES[0], PIECES[0], 1 + 1 + 2)  # seen, looked, written
    assert (same.text, same.steps) == ("in the", 2)
    assert translator.translate(["a"], forced=[{(1, 0): EOS}])[0].text == ""  # as it was wished
    monkeypatch.setattr("recoversat.inference.repairs.never_empty._FIRST_WORDS", 1)  # no word among what is likely
    assert [one.text for one in translator.translate(["a", "b"])] == ["a", "in the"]


def test_a_decoding_setting_that_does_not_exist_is_refused(scripted) -> None:
    with pytest.raises(UserError, match=r"decode\.join_overlap"):
        scripted({"a": ["the EOS"]}).set_decoding(join_overlap=True)


class ByCount:
    """An engine that writes something else in one segment than in two."""

    max_segments = 2

    def __init__(self, tokenizer: BpeTokenizer, scripts: dict[tuple[str, int], list[str]]) -> None:
        known = {"EOS": EOS}
        self._scripts = {
            (tuple(tokenizer.encode([source])[0]), k): [
                [known.get(word) or tokenizer.encode([word])[0][0] for word in segment.split()] for segment in segments
            ]
            for (source, k), segments in scripts.items()
        }

    def start(self, sources, n_segments):
        chosen = [self._scripts[tuple(ids), int(k)] for ids, k in zip(sources, n_segments, strict=True)]
        return ScriptedStepper(chosen, [])


def numbers(check: bool) -> Translator:
    tokenizer = BpeTokenizer([*SPECIAL_PIECES, "7", "8", "no", "number"])
    scripts = {
        ("no 7 8", 2): ["7 EOS", "7 EOS"],
        ("no 7 8", 1): ["7 8 EOS"],
        ("no 7 7", 2): ["7 EOS", "EOS"],
        ("no 7 7", 1): ["8 EOS"],
        ("no", 1): ["number EOS"],
        ("no 8 8", 2): ["7 EOS", "EOS"],
        ("no 8 8", 1): ["7 EOS"],
        ("no number", 2): ["no EOS", "number EOS"],
    }
    config = parse_config(
        {
            "data": {"tokenizer": "bpe"},
            "model": {"max_segments": 2},
            "train": {"segments": [1, 2]},
            "decode": {"check_numbers": check, "segment_length": 1},
        }
    )
    return Translator.of(ByCount(tokenizer, scripts), tokenizer, config)


def test_wrong_numbers_are_written_again_as_one_segment() -> None:
    better, none = numbers(check=True).translate(["no 7 8", "no number"])
    assert (better.text, better.steps) == ("7 8", 2 + 3)  # "7 7" at first
    assert (none.text, none.steps) == ("no number", 2)


def test_where_numbers_stay_wrong_the_words_around_them_are_translated_alone() -> None:
    first, other = numbers(check=True).translate(["no 7 7", "no 8 8"])
    assert (first.text, first.steps) == ("number 7 7", 2 + 2)  # "7" as two segments, "8" as one
    assert (other.text, other.steps) == ("number 8 8", 2 + 2)
    assert [segment.text for segment in first.segments] == ["7", ""]  # as they were written


def test_numbers_are_not_checked_where_k_was_named_or_nobody_asked() -> None:
    assert [t.text for t in numbers(check=True).translate(["no 7 8"], segments=2)] == ["7 7"]
    assert [t.text for t in numbers(check=False).translate(["no 7 8"])] == ["7 7"]


def test_white_space_around_a_text_stays(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    assert [t.text for t in translator.translate(["  a b\t", "a b"])] == ["  the house\t", "the house"]


def test_text_without_letters_is_copied_where_numbers_are_looked_after() -> None:
    texts = ["----------", "1000000000", "* * * * *", "2024-11-15"]
    assert [t.text for t in numbers(check=True).translate(texts)] == texts


def test_a_beam_takes_one_segment_where_nobody_names_k(scripted) -> None:
    assert numbers(check=False).translate(["no 7 8"], beam=2)[0].text == "7 8"
    with pytest.raises(UserError, match="beam search writes one segment"):
        numbers(check=False).translate(["no 7 8"], beam=2, segments=2)


def test_wrong_arguments_are_named(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    with pytest.raises(UserError, match=r"write translate\(\[text\]\)"):
        translator.translate("a b")
    for wrong in ({"segments": "7"}, {"segments": 2.5}, {"batch_size": 0}, {"beam": 0}):
        with pytest.raises(UserError, match="whole number"):
            translator.translate(["a b"], **wrong)


@pytest.mark.parametrize("lower", [True, False])
def test_capitals_are_translated_in_small_letters_where_the_model_asks_for_it(scripted, lower: bool) -> None:
    translator = scripted(
        {"Gas house": ["the EOS", "house EOS"], "GAS HOUSE": ["a EOS", "EOS"], "a b": ["in EOS", "EOS"]}
    )
    decode = translator.config.decode.model_copy(update={"lower_capitals": lower})
    translator.config = translator.config.model_copy(update={"decode": decode})
    loud, quiet = translator.translate(["GAS HOUSE", "a b"])
    assert (loud.source, loud.text) == ("GAS HOUSE", "THE HOUSE" if lower else "a")
    assert quiet.text == "in"
