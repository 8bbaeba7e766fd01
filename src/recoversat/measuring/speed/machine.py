"""What a measurement ran on: without it the figures mean nothing."""

import os
import platform
import shutil
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from recoversat import __version__
from recoversat.engines.cores import cores
from recoversat.measuring.peers import PEERS

_PACKAGES = ("numpy", "onnxruntime", "torch", *(peer.package for peer in PEERS), "sentencepiece")
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")


def machine() -> dict[str, Any]:
    """Describe processor, memory, GPU and the versions of all that computes."""
    return {
        "processor": _processor_field("model name") or platform.processor() or platform.machine(),
        "instructions": [one for one in _INSTRUCTIONS if one in _processor_field("flags").split()],
        "cores": cores(),
        "cores_there": os.cpu_count() or 1,
        "pinned_to": _pinned_to(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpu": _gpu(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
    }


def busy_seconds() -> float:
    """Return the processor seconds this machine has worked since it started."""
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))


def _pinned_to() -> list[int]:
    """Return the numbers of the cores that may be used, where others may not (`taskset`); processes inherit that."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return allowed if len(allowed) < (os.cpu_count() or 1) else []


def _processor_field(name: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _gpu() -> str | None:
    if not shutil.which("nvidia-smi"):
        return None
    command = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _versions() -> dict[str, str]:
    versions = {"recoversat": __version__}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
