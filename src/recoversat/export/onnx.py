"""Write a trained model as ONNX graphs.

    onnx/fp32/encoder.onnx  step.onnx  sentence.onnx  probe.onnx  weights.bin        onnx/int8/...

Needs numpy and onnx, not torch: weights come as a dictionary of arrays.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from recoversat.config import ModelConfig
from recoversat.engines.onnx.sentence import SENTENCE
from recoversat.export.onnx_graph import encoder_graph, probe_graph, step_graph
from recoversat.export.onnx_sentence import sentence_graph
from recoversat.export.onnx_weights import Fp32, Int8, Precision, Ranges, WeightFile, Weights
from recoversat.files.storage import atomic_folder

PrecisionName = Literal["fp32", "int8"]


def export_model(
    weights: Weights,
    config: ModelConfig,
    out: Path,
    precisions: Sequence[PrecisionName] = ("fp32", "int8"),
    ranges: Ranges | None = None,
) -> list[Path]:
    """Write the graphs of each precision into a folder below `out` and return these folders.

    `ranges` are those of the inputs of products (see `calibrate`); int8 without them follows each batch, so that
    translations depend on their neighbours: `export_folder` always has them.
    """
    known: dict[PrecisionName, Precision] = {"fp32": Fp32(), "int8": Int8(ranges)}
    if not config.stepwise:  # rows belong to no segment
        weights = {**weights, "segment_embedding.weight": np.zeros((1, config.d_model), dtype=np.float32)}
    folders = []
    for name in precisions:
        with atomic_folder(out / name, replace=True) as scratch, open(scratch / "weights.bin", "wb") as stream:
            file, precision = WeightFile(stream), known[name]
            (scratch / "encoder.onnx").write_bytes(encoder_graph(weights, config, precision, file))
            (scratch / "step.onnx").write_bytes(step_graph(weights, config, precision, file))
            (scratch / "probe.onnx").write_bytes(probe_graph(file))
            if config.stepwise:
                (scratch / SENTENCE).write_bytes(sentence_graph(scratch))
        folders.append(out / name)
    return folders
