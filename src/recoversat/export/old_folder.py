"""Convert a model folder that was exported before int8.safetensors; needs onnx.

Such a folder holds graphs in onnx/int8, whose constants are the weights: the same numbers under other names, the parts
of joined products one by one.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from recoversat.config import ModelConfig
from recoversat.engines.vocabulary import TABLE
from recoversat.errors import UserError
from recoversat.export.folder import check_place
from recoversat.export.onnx import export_int8
from recoversat.files.int8 import INT8, Arrays, forms_of, pack, write_int8
from recoversat.files.model_folder import ONNX, WEIGHTS, read_config
from recoversat.files.storage import atomic_folder

_OLD = f"{ONNX}/int8/weights.bin"
_KEPT = ("encoder.onnx", "step.onnx", "weights.bin")  # of fp32
_GRAPHS = ("encoder.onnx", "step.onnx")
_MEMORY = "decoder.layers.0.cross_attention.key_value"  # whose rounding was that of the whole product


def is_old(folder: Path) -> bool:
    """Say whether a folder has int8 graphs with weights of their own, and no others to export from."""
    return not any((folder / name).is_file() for name in (INT8, WEIGHTS)) and (folder / _OLD).is_file()


def convert(old: Path, out: Path, force: bool) -> str:
    """Write a folder of today from one that `is_old`."""
    config, _ = read_config(old)
    check_place(out, old, force)
    arrays = int8_of_graphs((old / _OLD).parent, config.model)
    with atomic_folder(out, replace=force) as folder:
        shutil.copytree(
            old, folder, ignore=lambda _, names: [name for name in names if name == ONNX], dirs_exist_ok=True
        )
        write_int8(folder, arrays, config.model)
        export_int8(config.model, folder / ONNX)
        for name in _KEPT if (old / ONNX / "fp32").is_dir() else ():
            (folder / ONNX / "fp32").mkdir(exist_ok=True)
            shutil.copy(old / ONNX / "fp32" / name, folder / ONNX / "fp32" / name)
        if (old / ONNX / TABLE).is_file():
            shutil.copy(old / ONNX / TABLE, folder / TABLE)
    return f"{out}: {old.name} in the format of today, with the same numbers"


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
