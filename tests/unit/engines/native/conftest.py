"""The kernel kits of this processor."""

from collections.abc import Callable

import pytest

from recoversat.engines.native import library


@pytest.fixture
def kits(built: bool, not_tested: Callable[[str], None]) -> list[str]:
    """List the kits that run here; those that do not are told at the end of a run."""
    here = library.kits()
    for name in library.KITS:
        if name not in here:
            not_tested(f"kernel kit {name} of the engine in C++: not on this processor")
    return here
