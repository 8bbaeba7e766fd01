"""Outputs on disk: all of them comes back, and nothing that is not theirs."""

import json
from dataclasses import replace

import pytest

from recoversat.errors import UserError
from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet, read_saved, save_output

TOY = TestSet("toy", ["x y", ""], ["a b", ""])
FULL = SystemOutput(
    name="k2",
    test_set="toy",
    hypotheses=["a \u2028 ä", ""],  # a line separator is text, not the end of a line
    tokens=[[7, 8, 9], []],
    steps=[3, 0],
    segments=[[SegmentStat(2, "eos"), SegmentStat(1, "del")], []],
    scores=[-0.1234567890123, 0.0],
    latency_ms=4.5,
    settings={"K": 2, "p": "1->0", "beam": None},
)


@pytest.mark.parametrize("output", [FULL, SystemOutput("plain", "toy", ["a", "b"])])
def test_what_is_saved_comes_back(tmp_path, output):
    assert read_saved(save_output(tmp_path, output, TOY), TOY) == output


def test_the_text_lies_beside_it(tmp_path):
    save_output(tmp_path, FULL, TOY)
    assert (tmp_path / "k2.txt").read_bytes().decode() == "a \u2028 ä\n\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k2.jsonl", "k2.txt"]


def test_it_may_be_read_under_another_name_and_for_a_renamed_test_set(tmp_path):
    path = save_output(tmp_path, FULL, TOY)
    read = read_saved(path, replace(TOY, name="ted"), "student")
    assert (read.name, read.test_set, read.tokens) == ("student", "ted", FULL.tokens)


def damage(path, change):
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    path.write_text("".join(f"{line}\n" for line in change(lines)), encoding="utf-8")


def without(key):
    def change(lines):
        record = json.loads(lines[1])
        del record[key]
        return [lines[0], json.dumps(record), *lines[2:]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:2], "line 3: missing, there are 2 sentences"),
        (lambda lines: [*lines[:2], lines[2][:20]], "damaged .*Invalid JSON"),
        (lambda lines: lines[1:], "line 1: not an output saved by"),
        (lambda lines: [], "line 1: not an output saved by"),
        (lambda lines: [lines[0], "[1]", lines[2]], "damaged .*Input should be an object"),
        (without("tokens"), "damaged .*Field required"),
        (lambda lines: [lines[0], lines[1].replace("[7,8,9]", "[2]"), lines[2]], "EOS or DEL among the tokens"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_line(tmp_path, change, message):
    path = save_output(tmp_path, FULL, TOY)
    damage(path, change)
    with pytest.raises(UserError, match=f"(?s){message}"):
        read_saved(path, TOY)


def test_an_output_of_other_sentences_is_refused(tmp_path):
    path = save_output(tmp_path, FULL, TOY)
    with pytest.raises(UserError, match="with other sentences than the test set 'toy' has now"):
        read_saved(path, TestSet("toy", ["x y", ""], ["a c", ""]))
