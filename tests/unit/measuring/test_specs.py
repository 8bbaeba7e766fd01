"""Systems and test sets as written on the command line."""

from dataclasses import replace
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.measuring.specs import SystemSpec, TestSpec, check_evaluation, parse_system, parse_test, without_repairs


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("at=teacher/", SystemSpec("at", "teacher/")),
        ("k5=runs/student:segments=5", SystemSpec("k5", "runs/student", segments=5)),
        ("at4=teacher:beam=4:segments=1", SystemSpec("at4", "teacher", 1, 4)),
        ("p=0=runs/p=0", SystemSpec("p", "0=runs/p=0")),
        ("x=dir/p=0.5:beam=2", SystemSpec("x", "dir/p=0.5", None, 2)),
        ("b=model:segments=auto:to=en", SystemSpec("b", "model", "auto", target="en")),
        ("o=C:/out.de", SystemSpec("o", "C:/out.de")),
        (
            "s=m:compute=int8:threads=2:repairs=none",
            SystemSpec("s", "m", compute="int8", threads=2, decode={"repairs": "none"}),
        ),
        ("j=m:overlaps=keep", SystemSpec("j", "m", decode={"join_overlaps": "false"})),
        ("e=m:extra_steps=9:beam=2", SystemSpec("e", "m", beam=2, decode={"extra_steps": "9"})),
        ("o=out/{test}.de", SystemSpec("o", "out/{test}.de")),
        ("u=marian:writes=25", SystemSpec("u", "marian", writes=25)),
    ],
)
def test_a_system_is_a_name_a_path_and_options(text, spec):
    assert parse_system(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("teacher", "write NAME=PATH"),
        ("=teacher", "write NAME=PATH"),
        ("at=", "write NAME=PATH"),
        (
            "at=teacher:beem=4",
            "no option beem; there are segments, beam, threads, lengths, writes, compute",
        ),
        ("at=student:overlaps=yes", "overlaps must be one of join, keep, not 'yes'"),
        ("at=student:repairs=all", "repairs must be one of model, none, not 'all'"),
        ("at=teacher:compute=int4", "compute must be one of default, int8, int8_onnx, int8_native, float32"),
        ("at=teacher:beam=0", "beam must be a whole number from 1, not '0'"),
        ("at=teacher:segments=two", "segments must be a whole number from 1, not 'two'"),
        ("../at=teacher", "cannot be a name"),
        ("..=teacher", "cannot be a name"),
        (" at=teacher", "cannot be a name"),
    ],
)
def test_a_wrong_system_is_explained(text, message):
    with pytest.raises(UserError, match=message):
        parse_system(text)


def test_a_test_set_is_a_name_and_two_files():
    assert parse_test("ted=a/tst.en,b/tst.de") == TestSpec("ted", Path("a/tst.en"), Path("b/tst.de"))
    for wrong in ("ted", "ted=a.en", "ted=a.en,", "ted=a,b,c"):
        with pytest.raises(UserError, match="write NAME=SOURCES,REFERENCES"):
            parse_test(wrong)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for name in ("out.de", "out.a.de", "out.b.de"):
        (tmp_path / name).touch()


A, B = TestSpec("a", Path("s"), Path("r")), TestSpec("b", Path("s"), Path("r"))
MODEL, OUTPUT = SystemSpec("at", "model"), SystemSpec("other", "out.de")


@pytest.mark.usefixtures("here")
def test_what_can_work_is_accepted():
    check_evaluation([MODEL, OUTPUT], [A], {"--at": "at", "--baseline": None})
    check_evaluation([MODEL, SystemSpec("other", "out.{test}.de")], [A, B], {"--at": "other"})


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("systems", "tests", "message"),
    [
        ([], [A], "at least one --system"),
        ([MODEL], [], "at least one --test"),
        ([MODEL, replace(MODEL, name="u", writes=9)], [A], "--system u: an untrained model has no quality"),
        ([MODEL, SystemSpec("at", "out.de")], [A], "--system: the name at is given twice"),
        ([MODEL], [A, A], "--test: the name a is given twice"),
        ([OUTPUT], [A], "--at at: no system has this name; there are: other"),
        ([MODEL, OUTPUT], [A, B], "one file cannot translate 2 test sets; write {test}"),
        ([MODEL, SystemSpec("o", "missing.de")], [A], "missing.de is neither a model folder nor a file"),
        ([MODEL, SystemSpec("o", "out.{test}.en")], [A], r"out.a.en is neither"),
        ([MODEL, SystemSpec("o", "out.de", segments=2)], [A], "the options are for models, but out.de is no folder"),
        ([MODEL, SystemSpec("o", "out.de", target="de")], [A], "the options are for models"),
        ([MODEL, SystemSpec("o", "out.de", decode={"repairs": "none"})], [A], "the options are for models"),
    ],
)
def test_what_cannot_work_is_found_before_anything_is_translated(systems, tests, message):
    with pytest.raises(UserError) as error:
        check_evaluation(systems, tests, {"--at": "at"})
    assert message in str(error.value)


@pytest.mark.usefixtures("here")
def test_no_repairs_are_asked_of_models_only():
    assert without_repairs([MODEL, OUTPUT]) == [SystemSpec("at", "model", decode={"repairs": "none"}), OUTPUT]
