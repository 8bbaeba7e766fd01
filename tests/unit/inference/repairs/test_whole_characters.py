"""Characters that are spelt in bytes, and torn by segments."""

import pytest

from recoversat.config import parse_config
from recoversat.files.model_folder import builtin_models
from recoversat.text.tokenizer import load_tokenizer
from recoversat.translator import Translator
from recoversat.vocab import EOS
from tests.unit.inference.by_count import ByCount

TOKENIZER = load_tokenizer(builtin_models()[0])
SOURCE, RARE = "a cat", TOKENIZER.encode(["\u5b57"])[0]  # three bytes


def translator(one: list[int], choices: list[int] = [1, 2]) -> Translator:  # noqa: B006
    torn = [[*RARE[:-1], EOS], [*TOKENIZER.encode(["Katze"])[0], EOS]]
    source = tuple(TOKENIZER.encode([SOURCE])[0])
    config = parse_config(
        {"model": {"max_segments": 2}, "train": {"segments": choices}, "decode": {"segment_length": 1}}
    )
    return Translator.of(ByCount({(source, 2): torn, (source, 1): [[*one, EOS]]}), TOKENIZER, config)


def test_a_torn_character_is_written_again_as_one_segment() -> None:
    (whole,) = translator(RARE).translate([SOURCE])
    assert (whole.text, whole.repairs, len(whole.segments)) == ("\u5b57", ("whole_characters",), 1)
    assert whole.steps == max(len(RARE), len(TOKENIZER.encode(["Katze"])[0]) + 1) + len(RARE) + 1
    assert TOKENIZER.decode(whole.ids) == "\u5b57"


@pytest.mark.parametrize("choices", [[1, 2], [2]])
def test_what_stays_torn_is_not_shown(choices: list[int]) -> None:
    (copied,) = translator(RARE[:-1], choices).translate([SOURCE])
    assert (copied.text, copied.repairs, TOKENIZER.decode(copied.ids)) == (SOURCE, ("whole_characters",), SOURCE)
    (forced,) = translator(RARE).translate([SOURCE], forced=[{(1, 0): EOS}])
    assert (forced.text, len(forced.segments)) == (SOURCE, 2)  # not written again: the caller has chosen the words


def test_without_repairs_it_is_shown_as_it_was_written() -> None:
    (raw,) = translator(RARE).translate([SOURCE], repairs=False)
    assert "\ufffd" in raw.text
    assert raw.repairs == ()
