"""What `make test-anywhere` reads of a run of pytest, and what it runs."""

from collections import Counter

import pytest

from tests import anywhere

REPORT = """<testsuites><testsuite>
<testcase file="tests/a.py" name="test_one"/>
<testcase file="tests/a.py" name="test_two">
<properties><property name="not tested" value="kit x"/></properties></testcase>
<testcase file="tests/a.py" name="test_three"><skipped message="no compiler"/></testcase>
<testcase file="tests/a.py" name="test_four"><failure message="1 != 2"/></testcase>
<testcase file="tests/b.py" name="test_five"><error message="setup"/></testcase>
</testsuite></testsuites>"""


def test_a_run_is_counted() -> None:
    reasons = Counter({"kit x": 1, "no compiler": 1})
    assert anywhere.outcome(REPORT) == (2, ["tests/a.py::test_four", "tests/b.py::test_five"], reasons)


def test_every_kit_of_this_processor_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anywhere, "kits_here", lambda: ["avx2", "plain"])
    found = [f"{one.name}={one.value}" for one in anywhere.settings()]
    assert found[-2:] == ["RECOVERSAT_KIT=avx2", "RECOVERSAT_KIT=plain"]
    assert {"ATEN_CPU_CAPABILITY=default", "MKL_ENABLE_INSTRUCTIONS=SSE4_2", "OMP_NUM_THREADS=8"} < set(found)
    assert all((anywhere.ROOT / path).exists() for one in anywhere.settings() for path in one.tests)


def test_a_kit_that_the_engine_does_not_take_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anywhere, "kit_of", lambda environment: "plain")
    found = anywhere.run(anywhere.Setting(anywhere.KIT, "avx2", []))
    assert (found.passed, found.failed) == (0, ["the engine runs kit plain"])
