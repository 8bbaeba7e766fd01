# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc, import-not-found, import-untyped, no-redef"
"""Triton kernels that begin before the one before them has ended: programmatic dependent launch, from Hopper on.

Such a kernel reads what no kernel of the same step writes (weights, rows of earlier steps, the source), and then waits.
So the time it takes to be started, and to read its weights, passes while others work. A step's first kernel is started
as any other: all that earlier steps wrote is there before any kernel of the step begins.
"""

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


LATE: tl.constexpr = tl.constexpr(2)  # the next kernel begins when this one has what it waits for, not sooner


@triton.jit
def let_others_begin(EARLY: tl.constexpr):  # noqa: N803
    """Let the next kernel begin."""
    if EARLY == 1:
        gdc_launch_dependents()


@triton.jit
def wait_for_results(EARLY: tl.constexpr):  # noqa: N803
    """Wait until the kernel before has written all it writes."""
    if EARLY:
        gdc_wait()
    if EARLY == LATE:
        gdc_launch_dependents()


def can_begin_early(device: torch.device) -> bool:
    """Say whether a GPU, and this Triton, let kernels begin early."""
    return _KNOWN and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def launched(early: int) -> dict[str, bool]:
    """Return what Triton is told of a kernel that begins early; an older Triton does not know the word."""
    return {"launch_pdl": True} if early else {}
