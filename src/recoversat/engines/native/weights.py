"""Read int8.safetensors in the order in which native.cpp takes weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.files.int8 import read_plain

Tensor = NDArray[Any]
Form = tuple[Any, tuple[int, ...]]  # dtype and shape
_BLOCK = 128  # the vocabulary is padded to whole blocks


def arrays_of(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Return all arrays of a model in order."""
    found = dict(_named(read_plain(folder, config)))
    return {name: np.ascontiguousarray(found[name]) for name, _ in _wanted(config)}


def _named(arrays: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, array in arrays.items():
        product, _, what = name.rpartition(".")
        if product == "memory" and what in ("step", "zero"):
            yield f"decoder.layers.0.cross_attention.key_value.{what}", array
        elif name == "embedding.weight":
            yield "embedding", array
        elif product in ("memory", "embedding") or what in ("step", "zero") or f"{product}.scale" not in arrays:
            yield name, array
        else:
            parts = np.split(array, 3 if product.endswith("qkv") else 1, axis=-1)
            yield from ((f"{product}.{n}.{what}", part) for n, part in enumerate(parts))


def _wanted(config: ModelConfig) -> Iterator[tuple[str, Form]]:
    """Name all arrays in the order in which native.cpp takes them."""
    d, hidden = config.d_model, config.d_hidden
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for index in range(layers):
            layer = f"{side}.layers.{index}"
            yield from _norm(f"{layer}.attention_norm", d)
            yield from _product(f"{layer}.self_attention.qkv", d, d, 3)
            yield from _product(f"{layer}.self_attention.output", d, d)
            if side == "decoder":
                yield from _norm(f"{layer}.cross_norm", d)
                yield from _product(f"{layer}.cross_attention.query", d, d)
                yield from _product(f"{layer}.cross_attention.output", d, d)
            yield from _norm(f"{layer}.feed_forward_norm", d)
            yield from _product(f"{layer}.feed_forward.inner", d, hidden)
            yield from _product(f"{layer}.feed_forward.outer", hidden, d)
    yield from _norm("encoder.norm", d)
    yield from _norm("decoder.norm", d)
    yield from _rounding("decoder.layers.0.cross_attention.key_value")
    yield from _matrix("memory", d, 2 * d * config.decoder_layers)
    yield from _rounding("embedding")
    places = -(-(config.vocab_size or 0) // _BLOCK) * _BLOCK
    yield "embedding", (np.int8, (places, d))
    yield "embedding.scale", (np.float32, (places,))
    yield "segment_embedding", (np.float32, (config.max_segments, d))


def _norm(name: str, size: int) -> list[tuple[str, Form]]:
    return [(f"{name}.{part}", (np.float32, (size,))) for part in ("weight", "bias")]


def _rounding(name: str) -> list[tuple[str, Form]]:
    return [(f"{name}.step", (np.float32, (1,))), (f"{name}.zero", (np.uint8, (1,)))]


def _matrix(name: str, inputs: int, outputs: int) -> list[tuple[str, Form]]:
    vectors: list[tuple[str, Form]] = [(f"{name}.{part}", (np.float32, (outputs,))) for part in ("scale", "bias")]
    return [(f"{name}.weight", (np.int8, (inputs, outputs))), *vectors]


def _product(name: str, inputs: int, outputs: int, parts: int = 1) -> list[tuple[str, Form]]:
    matrices = (part for index in range(parts) for part in _matrix(f"{name}.{index}", inputs, outputs))
    return [*_rounding(name), *matrices]
