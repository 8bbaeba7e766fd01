"""What this processor can do, for tests that need it."""

import os
import platform

import pytest

from recoversat.engines.native.library import compiler
from recoversat.engines.onnx.graphs import saturates
from recoversat.files.model_folder import builtin_models

# without VNNI 16-bit sums of int8 products overflow: other, exact products are used, and neither lists nor whole graphs
needs_vnni = pytest.mark.skipif(
    saturates(builtin_models()[0] / "onnx" / "int8"), reason="int8 products overflow on this processor"
)
# oneDNN, of which CTranslate2 is built, does not use VNNI where the environment keeps it from that
_WITHOUT_VNNI = {"SSE41", "AVX", "AVX2", "AVX512_CORE"}
needs_onednn_with_vnni = pytest.mark.skipif(
    os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT_VNNI,
    reason="ONEDNN_MAX_CPU_ISA leaves out VNNI, and int8 products of oneDNN overflow",
)
CAN_BUILD = bool(compiler()) and platform.machine() == "x86_64"
needs_compiler = pytest.mark.skipif(not CAN_BUILD, reason="the engine in C++ needs a compiler, and x86-64")
