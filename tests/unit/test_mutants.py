"""The faults of `make mutants` can be put in: what each one changes stands once in the file that it names."""

from pathlib import Path

from tests.mutants import FAULTS, ROOT, Fault, is_cpp


def problems(one: Fault) -> list[str]:
    """Say why a fault cannot be put in, or why no test would notice it."""
    found = []
    for edit in one.edits:
        path = (ROOT if is_cpp(edit.file) else ROOT / "src/recoversat") / edit.file
        if (times := path.read_text(encoding="utf-8").count(edit.old) if path.is_file() else 0) != 1:
            found.append(f"{one.name}: in {edit.file} {times} times: {edit.old}")
    tests = [Path(test.partition("::")[0]) for test in one.tests.split()]
    return found + [f"{one.name}: no {test}" for test in tests if not (ROOT / "tests" / test).exists()]


def test_no_fault_is_stale() -> None:
    assert [problem for one in FAULTS for problem in problems(one)] == []


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [one.name for one in FAULTS]
    assert sorted(set(names)) == sorted(names)
