"""Read the weights of an exported int8 model in the order in which native.cpp takes them; needs no onnx.

Only what is needed of the ONNX format (protocol buffers) is read: the constants of encoder.onnx and step.onnx, most of
which lie in weights.bin.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.errors import UserError

Tensor = NDArray[Any]
_GRAPH, _TENSOR = 7, 5  # fields of a model and of a graph
_DIMS, _TYPE, _NAME, _RAW, _ELSEWHERE = 1, 2, 8, 9, 13  # fields of a tensor
_TYPES: dict[int, Any] = {1: np.float32, 2: np.uint8, 3: np.int8, 7: np.int64, 9: np.bool_}


def arrays_of(folder: Path, config: ModelConfig) -> list[Tensor]:
    """Return all arrays of a model; those of weights.bin are mapped, not read."""
    data = np.memmap(folder / "weights.bin", dtype=np.uint8, mode="r")
    tensors: dict[str, Tensor] = {}
    for name in ("encoder.onnx", "step.onnx"):
        tensors |= _tensors((folder / name).read_bytes(), data)
    wanted = list(_names(config))
    if missing := [name for name in wanted if name not in tensors]:
        raise UserError(f"{folder}: the native engine needs int8 weights with measured scales; {missing[0]} is missing")
    return [tensors[name] for name in wanted]


def _names(config: ModelConfig) -> Iterator[str]:
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for index in range(layers):
            layer = f"{side}.layers.{index}"
            yield from _norm(f"{layer}.attention_norm")
            yield from _product(f"{layer}.self_attention.qkv", 3)
            yield from _product(f"{layer}.self_attention.output")
            if side == "decoder":
                yield from _norm(f"{layer}.cross_norm")
                yield from _product(f"{layer}.cross_attention.query")
                yield from _product(f"{layer}.cross_attention.output")
            yield from _norm(f"{layer}.feed_forward_norm")
            yield from _product(f"{layer}.feed_forward.inner")
            yield from _product(f"{layer}.feed_forward.outer")
    yield from _norm("encoder.norm")
    yield from _norm("decoder.norm")
    yield from _rounding("decoder.layers.0.cross_attention.key_value")
    yield from _matrix("memory")
    yield from _rounding("embedding")
    yield from ("embedding", "embedding.scale", "segment_embedding")


def _norm(name: str) -> list[str]:
    return [f"{name}.weight", f"{name}.bias"]


def _rounding(name: str) -> list[str]:
    return [f"{name}.step", f"{name}.zero"]


def _matrix(name: str) -> list[str]:
    return [f"{name}.weight", f"{name}.scale", f"{name}.bias"]


def _product(name: str, parts: int = 1) -> list[str]:
    return [*_rounding(name), *(part for index in range(parts) for part in _matrix(f"{name}.{index}"))]


def _tensors(model: bytes, data: Tensor) -> dict[str, Tensor]:
    """Return the constants of a graph by name."""
    found = {}
    for graph in _members(memoryview(model), _GRAPH):
        for tensor in _members(graph, _TENSOR):
            name, array = _tensor(tensor, data)
            found[name] = array
    return found


def _tensor(tensor: memoryview, data: Tensor) -> tuple[str, Tensor]:
    fields = list(_fields(tensor))
    known = dict(fields)
    dtype = np.dtype(_TYPES[known[_TYPE]])
    shape = [size for field, value in fields if field == _DIMS for size in _numbers(value)]
    elsewhere = [dict(_fields(value)) for field, value in fields if field == _ELSEWHERE]
    if elsewhere:
        place = {bytes(entry[1]).decode(): bytes(entry[2]).decode() for entry in elsewhere}
        start = int(place["offset"])
        raw = data[start : start + int(place["length"])]
    else:
        raw = np.frombuffer(bytes(known[_RAW]), dtype=np.uint8)
    return bytes(known[_NAME]).decode(), raw.view(dtype).reshape(shape)


def _members(message: memoryview, wanted: int) -> Iterator[memoryview]:
    return (value for field, value in _fields(message) if field == wanted)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Return number and value of each field: an int, or bytes."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        match key & 7:
            case 0:
                value, at = _number(message, at)
                yield key >> 3, value
            case 2:
                length, at = _number(message, at)
                yield key >> 3, message[at : at + length]
                at += length
            case kind:
                at += {1: 8, 5: 4}[kind]


def _numbers(value: int | memoryview) -> Iterator[int]:
    """Return numbers that may lie one by one, or packed."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _number(value, at)
        yield number


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """Read 7 bits a byte; return also where it ends."""
    number, shift = 0, 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
