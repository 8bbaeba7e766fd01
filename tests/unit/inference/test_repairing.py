"""The list of repairs: its order, its settings, and the one switch that turns all of them off."""

from recoversat.config import DecodeConfig
from recoversat.inference.repairing import Repair, repairs_for
from recoversat.inference.repairs import REPAIRS
from recoversat.inference.request import Request
from recoversat.translator import Translator
from tests.unit.inference.by_count import NUMBERS, writes

ALL = dict.fromkeys(REPAIRS, True)


def listed(translator: Translator) -> list[str]:
    return [repair.name for repair in repairs_for(translator, Request(None, 1, 1))]


def test_repairs_act_in_this_order() -> None:
    in_order = ["keep_spacing", "split_sentences", "lower_capitals", "join_overlaps", "delete_tokens"]
    in_order += ["cut_loops"]
    in_order += [
        "whole_characters",
        "never_empty",
        "keep_protected",
        "check_numbers",
        "localize_numbers",
        "one_quote_style",
    ]
    in_order.append("keep_ending")  # of whatever was written in the end
    assert list(REPAIRS) == in_order
    assert listed(writes(NUMBERS, **ALL)) == in_order
    assert listed(writes(NUMBERS, check_numbers=True, join_overlaps=True, whole_characters=False)) == [
        "join_overlaps",
        "check_numbers",
    ]
    assert listed(writes(NUMBERS)) == ["whole_characters"]


def test_each_repair_is_a_setting_with_a_description() -> None:
    for name, switch in REPAIRS.items():
        field = DecodeConfig.model_fields[name]
        assert (field.default, field.description) == (switch.default, switch.description)
    assert all(isinstance(one, Repair) for one in repairs_for(writes(NUMBERS, **ALL), Request(None, 1, 1)))


def test_a_repair_is_asked_for_what_it_does_only() -> None:
    does = {repair.name: repair.does for repair in repairs_for(writes(NUMBERS, **ALL), Request(None, 1, 1))}
    assert does["keep_spacing"] == {"cut", "prepare", "restore"}
    assert does["check_numbers"] == {"copies", "doubts", "mend"}
    assert does["delete_tokens"] == {"doubts"}
    assert all(does.values())


SCRIPTS = NUMBERS | {
    ("no 7", 2): ["EOS", "EOS"],
    ("no 8", 2): ["no number EOS", "number no no no no EOS"],
    ("no 7", 1): ["EOS"],
    ("no 8", 1): ["no EOS"],
    ("no number !", 2): ["no EOS", "number ! EOS"],
}


def test_one_switch_turns_all_repairs_off() -> None:
    translator, texts = writes(SCRIPTS, **ALL), ["no 7 8", "no 7", "no 8", ""]
    raw = ["7 7", "", "no number number no no no no", ""]
    for off in (translator.translate(texts, repairs=False), writes(SCRIPTS).translate(texts)):
        assert [one.text for one in off] == raw
        assert {one.repairs for one in off} == {()}
        assert [one.steps for one in off] == [2, 1, 6, 0]
    assert all(one.text != other for one, other in zip(translator.translate(texts[:3]), raw, strict=False))
    translator.set_decoding(repairs="none")
    assert [one.text for one in translator.translate(texts)] == raw


def test_a_translation_names_its_repairs_and_spells_its_ids() -> None:
    translator = writes(SCRIPTS, **ALL)
    empty, both, blank = translator.translate(["no 7", "no 8", ""])
    assert both.repairs == ("join_overlaps", "cut_loops", "check_numbers")  # which has the "8" put back
    assert empty.repairs == ("never_empty", "check_numbers")
    assert (blank.repairs, blank.ids) == ((), [])
    for one in (empty, both):
        assert translator.tokenizer.decode(one.ids) == one.text


def test_what_is_written_again_passes_through_the_repairs_before() -> None:
    scripts = {("no 7 8", 2): ["7 EOS", "EOS"], ("no 7 8", 1): ["7 8 8 8 8 8 EOS"]}
    (rewritten,) = writes(scripts, **ALL).translate(["no 7 8"])
    assert (rewritten.text, rewritten.repairs) == ("7 8", ("cut_loops", "check_numbers"))
    (raw,) = writes(scripts | {("no", 1): ["7 EOS"]}, check_numbers=True).translate(["no 7 8"])
    assert (raw.text, raw.repairs) == ("7", ())


def test_the_parts_of_a_long_text_are_repaired_one_by_one() -> None:
    translator = writes(SCRIPTS, **ALL)
    short = translator.config.data.model_copy(update={"max_tokens": 3})
    translator.config = translator.config.model_copy(update={"data": short})
    (long,) = translator.translate(["no number !  no 7 8"])
    assert (long.text, long.repairs) == ("no number !  7 8", ("check_numbers", "keep_spacing"))
    assert (long.source, len(long.segments), long.steps) == (
        "no number !  no 7 8",
        2 + 1,
        3 + 2 + 3 + 2,
    )  # each part of two segments is read once more
    assert long.ids == translator.tokenizer.encode([long.text])[0]
    (long,) = translator.translate(["no number !  no 8"])
    assert long.text == "no number !  number 8"
    assert [sorted(segment.left_out) for segment in long.segments] == [[], [], [], [0, 2, 3, 4]]
