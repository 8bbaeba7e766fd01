"""Reading test sets and outputs; what is wrong is named with file and line."""

import gzip

import pytest

from recoversat.errors import UserError
from recoversat.measuring.quality.outputs import (
    SIGNATURE_KEYS,
    SystemOutput,
    TestSet,
    read_output,
    read_test_set,
    signature_text,
)
from recoversat.vocab import DEL, EOS


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_test_set_is_read_line_by_line(tmp_path):
    source = write(tmp_path / "s.de", "ein Haus\n\nein Tag\n")
    reference = tmp_path / "r.en.gz"
    reference.write_bytes(gzip.compress(b"a house\n\na day\n"))
    toy = read_test_set("toy", source, reference)
    assert toy.sources == ["ein Haus", "", "ein Tag"]
    assert toy.references == ["a house", "", "a day"]
    assert toy.reference_tokens is toy.source_tokens is None


def test_unequal_line_counts_name_file_and_line(tmp_path):
    source, reference = write(tmp_path / "s", "a\nb\nc\n"), write(tmp_path / "r", "A\nB\n")
    with pytest.raises(UserError, match=r"r, line 3: missing; the file has 2 lines but .*s has 3"):
        read_test_set("toy", source, reference)
    with pytest.raises(UserError, match=r"r, line 3: missing"):  # the shorter file is named, whichever it is
        read_test_set("toy", reference, source)


@pytest.mark.parametrize("empty", ["s", "r"])
def test_an_empty_file_is_named(tmp_path, empty):
    source, reference = write(tmp_path / "s", "a\n"), write(tmp_path / "r", "A\n")
    write(tmp_path / empty, "")
    with pytest.raises(UserError, match=rf"{empty}, line 1: the file is empty"):
        read_test_set("toy", source, reference)


def test_a_missing_reference_is_named(tmp_path):
    source = write(tmp_path / "s", "a\nb\nc\n")
    with pytest.raises(UserError, match=r"nowhere: no such file"):
        read_test_set("toy", source, tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"r, line 2: the reference is missing"):
        read_test_set("toy", source, write(tmp_path / "r", "A\n \nC\n"))


def test_an_output_must_have_a_line_for_every_sentence(tmp_path):
    toy = TestSet("toy", ["a", "b"], ["A", "B"])
    assert read_output("base", toy, write(tmp_path / "o", "A\n\n")).hypotheses == ["A", ""]
    with pytest.raises(UserError, match=r"o, line 2: missing; the file has 1 lines but test set 'toy' has 2"):
        read_output("base", toy, write(tmp_path / "o", "A\n"))
    with pytest.raises(UserError, match=r"test set 'toy', line 3: missing"):
        read_output("base", toy, write(tmp_path / "o", "A\nB\nC\n"))
    with pytest.raises(UserError, match=r"o, line 1: the file is empty"):
        read_output("base", toy, write(tmp_path / "o", ""))


@pytest.mark.parametrize("special", [EOS, DEL])
def test_terminators_among_the_tokens_are_refused(special):
    with pytest.raises(ValueError, match="sentence 2: PAD, BOS, EOS or DEL"):
        SystemOutput("s", "toy", ["a", "b"], tokens=[[7], [8, special]])


def test_the_signature_has_every_key_and_those_of_the_system():
    output = SystemOutput("s", "toy", ["a"], settings={"K": 5, "device": "cpu", "cut_at": "word"})
    assert list(output.signature) == [*SIGNATURE_KEYS, "cut_at"]
    assert output.signature["K"] == 5
    assert output.signature["beam"] is None
    assert signature_text(output.signature) == "K:5|device:cpu|cut_at:word"


def test_the_fingerprint_follows_the_text():
    one, same = TestSet("a", ["x"], ["y"]), TestSet("b", ["x"], ["y"])
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != TestSet("a", ["x"], ["z"]).fingerprint
    assert one.fingerprint != TestSet("a", ["y"], ["x"]).fingerprint
