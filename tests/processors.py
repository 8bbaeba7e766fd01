"""What this machine can do, for tests that need it."""

import os

import pytest

from recoversat.engines.loading import native_engine
from recoversat.engines.onnx.graphs import saturates
from recoversat.files.model_folder import builtin_models

# without VNNI 16-bit sums of int8 products overflow in ONNX Runtime, which then takes other, exact products
needs_vnni = pytest.mark.skipif(
    saturates(builtin_models()[0] / "onnx" / "int8"), reason="int8 products overflow on this processor"
)
# oneDNN, of which CTranslate2 is built, does not use VNNI where the environment keeps it from that
_WITHOUT_VNNI = {"SSE41", "AVX", "AVX2", "AVX512_CORE"}
needs_onednn_with_vnni = pytest.mark.skipif(
    os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT_VNNI,
    reason="ONEDNN_MAX_CPU_ISA leaves out VNNI, and int8 products of oneDNN overflow",
)
needs_native = pytest.mark.skipif(native_engine() is None, reason="the engine in C++ is not installed here")
ALL_KITS = ("amx", "avx512-vnni", "avx-vnni", "avx2", "neon", "plain")


def kits_here() -> list[str]:
    """List the kernel kits of the engine in C++ that this processor runs; none where it is not installed."""
    if native_engine() is None:
        return []
    from recoversat.engines.native import _engine

    return _engine.kits()
