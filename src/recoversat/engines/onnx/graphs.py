"""The two graphs of an exported model as sessions of ONNX Runtime, which is imported here alone."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.errors import UserError
from recoversat.files.int8 import padded_size, read_plain
from recoversat.files.model_folder import ONNX

try:
    import onnxruntime
except ImportError:
    raise UserError("ONNX Runtime is missing: pip install 'recoversat[onnx]'") from None

_ENCODER = ("encoder.", "memory.", "embedding.weight", "embedding.scale", "length.")
_STEP = ("decoder.", "embedding.", "segment_embedding")

Arrays = Mapping[str, NDArray[Any]]


class Graphs:
    """The sessions of a precision, int8 or fp32; graphs of another model than config.json describes are refused."""

    def __init__(self, folder: Path, precision: str, config: ModelConfig, arena: bool) -> None:
        self._folder, self._config = folder / ONNX / precision, config
        arrays = read_plain(folder, config) if precision == "int8" else {}
        exact = precision == "int8" and saturates(self._folder)
        opened = partial(_session, exact=exact, arena=arena)
        self.encoder, self.step = (
            opened(self._folder / f"{name}.onnx", {key: arrays[key] for key in arrays if key.startswith(mine)})
            for name, mine in (("encoder", _ENCODER), ("step", _STEP))
        )
        self._check()

    def _check(self) -> None:
        shapes = {value.name: value.shape for value in self.step.get_inputs()}
        layers = sum(name.startswith("memory_key_") for name in shapes)
        found: dict[str, int] = {
            "decoder_layers": layers,
            "d_model": shapes["position"][-1],
            "n_heads": shapes["places"][-2],
        }
        for name, size in found.items():
            self._refuse_other(name, size, getattr(self._config, name))
        self._refuse_other("vocab_size, in whole blocks,", shapes["bias"][0], padded_size(self._config.vocab_size or 0))

    def _refuse_other(self, name: str, size: int, wanted: int) -> None:
        if size != wanted:
            raise UserError(f"{self._folder}: the graph of another model ({name} is {size}, config.json says {wanted})")


def saturates(folder: Path) -> bool:
    """Say whether this processor gets products of int8 weights wrong: without VNNI, sums in 16 bits overflow."""
    rows = np.full((16, 64), 255, dtype=np.uint8)
    [sums] = _session(folder / "probe.onnx", {}, exact=False, arena=False).run(["sums"], {"rows": rows})
    return bool((sums != 64 * 255 * 127).any())


def _session(path: Path, weights: Arrays, exact: bool, arena: bool) -> Any:
    if not path.is_file():
        raise UserError(f"{path.parent}: no ONNX graphs here ({path.name} is missing); run 'recoversat export'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.enable_cpu_mem_arena = arena
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
    options.add_external_initializers(list(weights), values)
    # the graphs are fused by hand; all that is left is to transpose the output matrix once
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if exact else levels.ORT_ENABLE_BASIC
    if exact:  # unsigned weights: half as fast, but they do not overflow
        options.add_session_config_entry("session.x64quantprecision", "1")
    unwanted = ["SkipLayerNormFusion", "DynamicQuantizeMatMulFusion"]  # slower than what they replace
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=unwanted
        )
    except Exception as error:  # the errors of ONNX Runtime have no base class of their own
        raise UserError(f"{path}: damaged, or of another model ({str(error).splitlines()[0]})") from None
