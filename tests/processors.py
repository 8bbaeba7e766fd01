"""What this processor can do, for tests that need it."""

import pytest

from recoversat.engines.onnx.graphs import saturates
from recoversat.files.model_folder import builtin_models

# without VNNI 16-bit sums of int8 products overflow: other, exact products are used, and neither lists nor whole graphs
needs_vnni = pytest.mark.skipif(
    saturates(builtin_models()[0] / "onnx" / "int8"), reason="int8 products overflow on this processor"
)
