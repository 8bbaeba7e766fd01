"""How much memory this process holds."""

import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the resident size of this process; where the system does not tell, its peak."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
