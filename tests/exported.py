"""Models in memory as folders that were exported."""

from pathlib import Path

import numpy as np
from torch import nn

from recoversat.export.calibration import calibrate
from recoversat.export.int8 import Ranges, quantised
from recoversat.export.onnx import export_fp32, export_int8
from recoversat.files.int8 import write_int8
from recoversat.files.model_folder import ONNX
from recoversat.model.build import Model
from recoversat.vocab import N_SPECIAL


def weights_of(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in model.state_dict().items()}


def write_exported(model: Model, folder: Path, *precisions: str, ranges: Ranges | None = None) -> Path:
    """Write the weights and graphs of a model, int8 and fp32 where no precision is named."""
    config, weights = model.config, weights_of(model)
    if "fp32" in (precisions or ("fp32",)):
        export_fp32(weights, config, folder / ONNX)
    if "int8" in (precisions or ("int8",)):
        write_int8(folder, quantised(weights, config, ranges or measured(model)), config)
        export_int8(config, folder / ONNX)
    return folder


def measured(model: Model) -> Ranges:
    """Measure how large inputs get in sentences of random ids."""
    rng, config = np.random.default_rng(9), model.config
    sources = [rng.integers(N_SPECIAL, config.vocab_size, length).tolist() for length in (1, 3, 5, 8, 12, 20)]
    return calibrate(model.eval(), sources, [1, config.max_segments] if config.stepwise else [1])
