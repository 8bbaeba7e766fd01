"""What this machine can do, for tests that need it."""

import pytest

from recoversat.engines.loading import native_engine
from recoversat.engines.onnx.graphs import saturates
from recoversat.files.model_folder import builtin_models

# without VNNI 16-bit sums of int8 products overflow in ONNX Runtime, which then takes other, exact products
needs_vnni = pytest.mark.skipif(
    saturates(builtin_models()[0] / "onnx" / "int8"), reason="int8 products overflow on this processor"
)
needs_native = pytest.mark.skipif(native_engine() is None, reason="the engine in C++ is not installed here")
