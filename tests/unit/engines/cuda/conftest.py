"""These tests run on the CPU, wherever they run."""

from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def _on_a_cpu(not_tested: Callable[[str], None]) -> None:
    not_tested("CUDA graphs and kernels on a GPU: python benchmarks/gpu_check.py tests them there")
