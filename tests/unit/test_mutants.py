"""The faults of `make mutants` can be put in: what each one changes stands once in the file that it names."""

import pytest

from tests.mutants import FAULTS, ROOT, Fault


@pytest.mark.parametrize("one", FAULTS, ids=lambda one: one.name)
def test_no_fault_is_stale(one: Fault) -> None:
    for edit in one.edits:
        assert (ROOT / "src/recoversat" / edit.file).read_text(encoding="utf-8").count(edit.old) == 1, edit.old
    assert all((ROOT / "tests" / path.partition("::")[0]).exists() for path in one.tests.split())
