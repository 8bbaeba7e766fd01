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
Form = tuple[Any, tuple[int, ...]]  # dtype and shape
_BLOCK = 128  # the vocabulary is padded to whole blocks
_GRAPH, _NOTES, _TENSOR = 7, 14, 5  # fields of a model, and of a graph
_DIMS, _TYPE, _NAME, _RAW, _ELSEWHERE = 1, 2, 8, 9, 13  # fields of a tensor
_TYPES: dict[int, Any] = {1: np.float32, 2: np.uint8, 3: np.int8, 7: np.int64, 9: np.bool_}


def arrays_of(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Return all arrays of a model, those that its config speaks of, in order; weights.bin is mapped, not read."""
    try:
        data = np.memmap(folder / "weights.bin", dtype=np.uint8, mode="r")
        tensors: dict[str, Tensor] = {}
        for name in ("encoder.onnx", "step.onnx"):
            tensors |= _tensors((folder / name).read_bytes(), data)
        _check_notes(folder, config)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{folder}: damaged, or of another version ({error}); export the model again") from None
    _check_sizes(folder, tensors, config)
    return {name: tensors[name] for name, _ in _wanted(config)}


def _check_sizes(folder: Path, tensors: dict[str, Tensor], config: ModelConfig) -> None:
    """Refuse another model's weights: the library takes all sizes from the config, and trusts them."""
    for name, (dtype, shape) in _wanted(config):
        if name not in tensors:
            raise UserError(
                f"{folder}: int8 weights with measured scales are needed; {name} is missing (export it again)"
            )
        found = tensors[name]
        if found.dtype != dtype or found.size != np.prod(shape) or (len(shape) > 1 and found.shape != shape):
            raise _other_model(folder, f"{name} is {found.dtype}{list(found.shape)}, not {list(shape)}")
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        if f"{side}.layers.{layers}.attention_norm.weight" in tensors:
            raise _other_model(folder, f"{side}_layers is more than {layers}, as config.json says")


def _check_notes(folder: Path, config: ModelConfig) -> None:
    """Compare the number of heads, which no weight knows, with what the graph of whole sentences notes."""
    graph = folder / "sentence.onnx"
    if not graph.is_file():  # exported by an older version
        return
    for entry in _members(memoryview(graph.read_bytes()), _NOTES):
        key, value = (bytes(part).decode() for _, part in _fields(entry))
        if key == "n_heads" and int(value) != config.n_heads:
            raise _other_model(folder, f"n_heads is {value}, config.json says {config.n_heads}")


def _other_model(folder: Path, why: str) -> UserError:
    return UserError(f"{folder}: the weights of another model ({why})")


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
                if at + length > len(message):
                    raise ValueError("a graph that is cut off")
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
