"""The weights of an exported int8 model, multiplied out: what a training goes on from where no others are left."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recoversat.config import ModelConfig
from recoversat.engines.native.weights import arrays_of
from recoversat.files.model_folder import read_config

Array = NDArray[Any]
_ROUNDING = (".step", ".zero", ".scale")
_JOINED = (".1.weight", ".2.weight", ".1.bias", ".2.bias")  # with the first part: one product here, three there


def exported_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a model folder's int8 export, each within half a step of what was exported."""
    config, _ = read_config(folder)
    named = _multiplied(arrays_of(folder / "onnx" / "int8", config.model), config.model)
    return {name: torch.from_numpy(np.array(value)) for name, value in named}


def _multiplied(arrays: dict[str, Array], config: ModelConfig) -> Iterator[tuple[str, Array]]:
    """Name the arrays as a Transformer does: weights are (out, in), parts of a product joined."""
    for name, array in arrays.items():
        if name.endswith((*_ROUNDING, *_JOINED, ".0.bias")) or name == "memory.bias":
            continue
        if name == "embedding":
            yield "embedding.weight", (array * arrays["embedding.scale"][:, None])[: config.vocab_size]
        elif name == "segment_embedding":
            yield "segment_embedding.weight", array
        elif name == "memory.weight":
            yield from _cross_attention(arrays, config)
        elif name.endswith(".0.weight"):
            product = name.removesuffix(".0.weight")
            parts = [f"{product}.{n}" for n in range(3) if f"{product}.{n}.weight" in arrays]
            yield f"{product}.weight", np.concatenate([(arrays[f"{p}.weight"] * arrays[f"{p}.scale"]).T for p in parts])
            yield f"{product}.bias", np.concatenate([arrays[f"{p}.bias"] for p in parts])
        else:
            yield name, array


def _cross_attention(arrays: dict[str, Array], config: ModelConfig) -> Iterator[tuple[str, Array]]:
    """Keys and values of the source are one product for all layers in an export, one a layer in a Transformer."""
    weights = (arrays["memory.weight"] * arrays["memory.scale"]).T.reshape(config.decoder_layers, -1, config.d_model)
    biases = arrays["memory.bias"].reshape(config.decoder_layers, -1)
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        yield f"decoder.layers.{layer}.cross_attention.key_value.weight", weight
        yield f"decoder.layers.{layer}.cross_attention.key_value.bias", bias
