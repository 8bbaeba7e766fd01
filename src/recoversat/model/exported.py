"""The weights of an exported int8 model, multiplied out: for a GPU, and for a training that goes on from them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recoversat.config import Config, ModelConfig
from recoversat.files.int8 import Arrays, read_plain
from recoversat.files.model_folder import read_config
from recoversat.model.build import Model, build_model


def load_exported(folder: Path) -> tuple[Model, Config]:
    """Build the model of a folder that has int8 weights alone."""
    config, _ = read_config(folder)
    model = build_model(config.model)
    model.load_state_dict(exported_weights(folder))
    return model, config


def exported_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a model folder's int8 export, each within half a step of what was exported."""
    config, _ = read_config(folder)
    named = _multiplied(read_plain(folder, config.model), config.model)
    return {name: torch.from_numpy(np.array(value)) for name, value in named}


def _multiplied(arrays: Arrays, config: ModelConfig) -> Iterator[tuple[str, NDArray[Any]]]:
    """Name the arrays as a Transformer does; weights are (out, in) there."""
    for name, array in arrays.items():
        product, _, what = name.rpartition(".")
        scale = arrays.get(f"{product}.scale")
        if what in ("scale", "step", "zero"):
            continue
        if name == "embedding.weight" and scale is not None:
            yield name, (array * scale[:, None])[: config.vocab_size]
            continue
        value = (array * scale).T if what == "weight" and scale is not None else array
        if product == "memory":  # one product for all layers here, one a layer in a Transformer
            for layer, part in enumerate(np.split(value, config.decoder_layers)):
                yield f"decoder.layers.{layer}.cross_attention.key_value.{what}", part
        else:
            yield "segment_embedding.weight" if name == "segment_embedding" else name, value
