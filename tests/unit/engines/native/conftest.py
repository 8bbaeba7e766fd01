"""The kernel kits of this processor."""

from collections.abc import Callable

import pytest

from tests.processors import ALL_KITS, kits_here


@pytest.fixture
def kits(not_tested: Callable[[str], None]) -> list[str]:
    """List the kits that run here; those that do not are told at the end of a run."""
    here = kits_here()
    for name in ALL_KITS:
        if name not in here:
            not_tested(f"kernel kit {name} of the engine in C++: not on this processor")
    return here
