"""Read the int8 weights of a folder that was exported before int8.safetensors; needs onnx.

Such a folder holds graphs in onnx/int8, whose constants are the weights: the same numbers under other names, the parts
of joined products one by one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from recoversat.config import ModelConfig
from recoversat.errors import UserError
from recoversat.files.int8 import Arrays, forms_of, pack

_GRAPHS = ("encoder.onnx", "step.onnx")
_MEMORY = "decoder.layers.0.cross_attention.key_value"  # whose rounding was that of the whole product


def int8_of_graphs(folder: Path, config: ModelConfig) -> dict[str, NDArray[Any]]:
    """Return the arrays of int8.safetensors from the graphs of a folder (onnx/int8)."""
    try:
        found = dict(tensor for name in _GRAPHS for tensor in _constants(folder / name))
        return dict(_arrays(found, config))
    except KeyError as error:
        why = f"{error} is missing: scales that were not measured, or another model"
        raise UserError(f"{folder}: cannot be converted ({why}); export the model again from its checkpoint") from None
    except Exception as error:  # of onnx, of protocol buffers and of numpy
        raise UserError(f"{folder}: damaged ({error}); export the model again from its checkpoint") from None


def _constants(graph: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    for tensor in onnx.load_model(graph).graph.initializer:
        yield tensor.name, numpy_helper.to_array(tensor)


def _arrays(found: Arrays, config: ModelConfig) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, (_, shape) in forms_of(config).items():
        linear, _, what = name.rpartition(".")
        if what in ("step", "zero"):
            yield name, found[f"{_MEMORY if linear == 'memory' else linear}.{what}"].reshape(1)
        elif name == "embedding.weight":
            yield name, found["embedding"]
        elif name == "length.weight":
            yield name, np.ascontiguousarray(found[name].T)  # (in, out) there
        elif name in found:  # norms, tables, and `memory`, which was one product there too
            yield name, pack(found[name]) if len(shape) == 4 else found[name]
        else:
            parts = [found[f"{linear}.{part}.{what}"] for part in range(3 if linear.endswith(".qkv") else 1)]
            joined = np.concatenate(parts, axis=-1)
            yield name, pack(joined) if what == "weight" else joined
