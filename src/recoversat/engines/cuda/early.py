# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped, no-redef"
"""Start Triton kernels before the one before them has ended: programmatic dependent launch, from Hopper on.

Such a kernel reads what no kernel of the same step writes (weights, rows of earlier steps, the source), and then waits.
So the time it takes to be started, and to read its weights, passes while another works. It lets the next one begin when
it has what it waited for, no sooner: programs that wait keep registers and memory of the chip from those that work.
A step's first kernel is started as any other: all that earlier steps wrote is there before any of the step begins.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

    _KNOWN = True
except ImportError:  # an older Triton
    _KNOWN = False

    @triton.jit
    def gdc_wait():
        pass

    @triton.jit
    def gdc_launch_dependents():
        pass


_COMPILERS = min(16, os.cpu_count() or 1)
_only_compiling: ContextVar[bool] = ContextVar("only_compiling", default=False)


@triton.jit
def wait_for_results(EARLY: tl.constexpr):  # noqa: N803
    """Wait until the kernel before has written all it writes, and let the next one begin."""
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()


def can_begin_early(device: torch.device) -> bool:
    """Say whether a GPU, and this Triton, let kernels begin early."""
    return _KNOWN and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def launch(
    kernel: Any, grid: tuple[int, ...], *args: object, early: bool, first: bool = False, **constants: object
) -> None:
    """Start a kernel that may begin early; the first of a step begins when all before it has ended."""
    if early and not first:
        constants["launch_pdl"] = True  # an older Triton does not know the word
    if _only_compiling.get():
        kernel.warmup(*args, grid=grid, EARLY=early, **constants)
    else:
        kernel[grid](*args, EARLY=early, **constants)


def compile_together(work: Callable[[], object]) -> None:
    """Compile the kernels that `work` launches, many at a time, and start none; one that cannot be fails later.

    An older Triton compiles them when they are started, one after the other; its interpreter compiles nothing.
    """
    if not hasattr(triton, "AsyncCompileMode") or triton.knobs.runtime.interpret:
        return
    before = _only_compiling.set(True)
    try:
        with ThreadPoolExecutor(_COMPILERS) as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
            work()
    finally:
        _only_compiling.reset(before)
