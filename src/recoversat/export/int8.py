"""Quantise a trained model: int8 weights with one scale for each output, and inputs of products in 8 bits.

Needs numpy, not torch: weights are a dictionary of arrays, named as in `Transformer.state_dict()`. Inputs have one
scale a product, measured before (`calibration.py`): a scale of the rows at hand would let neighbours matter.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.files.int8 import Arrays, check_shape, forms_of, pack, padded_size

Floats = NDArray[np.float32]
Range = tuple[float, float]  # the least and the largest value a product has met as input; 0 lies between them
Ranges = Mapping[str, Range]  # by the name of the product


def quantised(weights: Arrays, config: ModelConfig, ranges: Ranges) -> dict[str, NDArray[Any]]:
    """Return the arrays of int8.safetensors; `ranges` are those of `calibrate`."""
    check_shape(config)
    found, arrays = matrices(weights, config), dict[str, NDArray[Any]]()
    ranges = {**ranges, "memory": ranges[_key_value(0)]}
    for name, (_, shape) in forms_of(config).items():
        product, _, what = name.rpartition(".")
        if len(shape) == 4:
            values, arrays[f"{product}.scale"] = quantise(found[name], axis=0)
            arrays[name] = pack(values)
        elif name == "embedding.weight":
            arrays[name], arrays["embedding.scale"] = quantise(found[name], axis=1)
        elif what in ("step", "zero"):
            step, zero = steps_of(ranges[product])
            arrays[name] = np.array([step], np.float32) if what == "step" else np.array([zero], np.uint8)
        elif what != "scale":
            arrays[name] = found[name]
    return arrays


def matrices(weights: Arrays, config: ModelConfig) -> dict[str, Floats]:
    """Return the weights of a model under the names of int8.safetensors: (in, out), and the vocabulary padded."""
    found = {name: np.asarray(array, dtype=np.float32) for name, array in weights.items()}
    layers = [_key_value(layer) for layer in range(config.decoder_layers)]
    found |= {f"memory.{what}": np.concatenate([found.pop(f"{one}.{what}") for one in layers]) for what in _PARTS}
    for name in found:
        if name == "embedding.weight":
            rows = padded_size(len(found[name])) - len(found[name])
            found[name] = np.pad(found[name], ((0, rows), (0, 0)))
        elif found[name].ndim == 2 and name not in ("segment_embedding.weight", "length.weight"):
            found[name] = np.ascontiguousarray(found[name].T)
    return {name.replace("segment_embedding.weight", "segment_embedding"): array for name, array in found.items()}


_PARTS = ("weight", "bias")


def _key_value(layer: int) -> str:
    return f"decoder.layers.{layer}.cross_attention.key_value"


def steps_of(seen: Range) -> tuple[float, int]:
    """Cut a range into 255 steps; return the size of one, and which of them is 0.

    >>> steps_of((-50.0, 77.5))
    (0.5, 100)
    """
    low, high = seen
    step = (high - low) / 255 or 1.0
    return step, round(-low / step)


def quantise(weight: Floats, axis: int) -> tuple[NDArray[np.int8], Floats]:
    """Round to -127..127, with one scale for each line along `axis`.

    >>> quantise(np.array([[1.0, -0.5], [0.5, 0.5]], dtype=np.float32), axis=0)[0].tolist()
    [[127, -127], [64, 127]]
    """
    scale = np.abs(weight).max(axis=axis, keepdims=True) / 127
    scale = np.where(scale == 0, 1, scale).astype(np.float32)
    return np.round(weight / scale).astype(np.int8), scale.squeeze(axis)
