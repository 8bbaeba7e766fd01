"""How many cores a CPU engine may use."""

import os


def usable_cores() -> int:
    """Count the cores this process may use; OMP_NUM_THREADS bounds them, as it does for everybody else."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return cores()


def cores() -> int:
    """Count the cores the system lets this process use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
