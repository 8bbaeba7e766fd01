"""What holds for all tests: properties are tried on the same examples each time, and nothing is left out in silence.

`RECOVERSAT_EXPLORE=1 pytest ...` looks for new examples.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("RECOVERSAT_EXPLORE") else "same")

NOT_TESTED = "not tested"  # the property of a test that says what it left out


@pytest.fixture
def not_tested(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Note what a test leaves out because this machine lacks it, though the rest of it runs."""
    return lambda what: request.node.user_properties.append((NOT_TESTED, what))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """End a run with what it could not test on this machine: how many tests, and why."""
    if found := Counter(left_out(terminalreporter.stats)):
        terminalreporter.section("not tested on this machine")
        for why, count in sorted(found.items()):
            terminalreporter.write_line(f"{count} test{'s' * (count > 1)}: {why}")


def left_out(stats: Mapping[str, Iterable[Any]]) -> Iterator[str]:
    """Say for each test that was skipped, or left something out, why."""
    for report in stats.get("skipped", ()):
        why = str(report.longrepr[2]).removeprefix("Skipped: ")
        yield f"{why} (all of {report.nodeid})" if isinstance(report, pytest.CollectReport) else why
    for outcome in ("passed", "failed"):
        for report in stats.get(outcome, ()):
            yield from (what for name, what in report.user_properties if name == NOT_TESTED)
