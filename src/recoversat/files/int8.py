"""Write and read int8.safetensors: the weights of a Transformer as int8, which every engine reads.

A linear map of `in` inputs and `out` outputs is NAME.weight int8 (packed), NAME.scale and NAME.bias f32 (out,), and
NAME.step f32 and NAME.zero u8, by which its inputs are rounded: round(x / step) + zero, clamped to 0..255. The product
of the integers, times step and scale, plus the bias is the output. The zero of `feed_forward.outer` is 0, so that
rounding is the ReLU before it.

The file is plain safetensors. Every array begins at a multiple of 64 bytes, so that it is used where it is mapped; the
arrays whose size is no multiple of 64 come last.

D model, V vocabulary, P padded vocabulary.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.errors import UserError
from recoversat.files.storage import atomic_file

INT8 = "int8.safetensors"
FORMAT = "recoversat-int8-1"
_TILES = 4  # dimensions of a packed weight
INPUTS, OUTPUTS = 4, 16  # of a tile: 4 inputs of 16 outputs are side by side, as the fastest instructions read them
BLOCK = 128  # the vocabulary is padded to whole blocks
LENGTHS = 129  # classes of a target's length that NAT and CMLM predict
_IN, _HEAD = 32, 16  # d_model and d_hidden are multiples of the one, the size of a head of the other
_LARGEST = 1 << 16  # more inputs could overflow a sum in 32 bits
_ALIGNMENT = 64
_MOST_HEADER = 1 << 24
_TYPES: dict[str, Any] = {"F32": np.dtype("<f4"), "I8": np.dtype("i1"), "U8": np.dtype("u1")}

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Form = tuple[str, tuple[int, ...]]  # dtype in the words of safetensors, and shape


def pack(weight: Array) -> Array:
    """Cut a matrix (in, out) into tiles (out / 16, in / 4, 16, 4).

    >>> pack(np.arange(64).reshape(4, 16))[0, 0, 1].tolist()
    [1, 17, 33, 49]
    """
    inputs, outputs = weight.shape
    tiles = weight.reshape(inputs // INPUTS, INPUTS, outputs // OUTPUTS, OUTPUTS)
    return np.ascontiguousarray(tiles.transpose(2, 0, 3, 1))


def unpack(tiles: Array) -> Array:
    """Return the matrix (in, out) of tiles.

    >>> unpack(pack(np.arange(64).reshape(4, 16))).tolist() == np.arange(64).reshape(4, 16).tolist()
    True
    """
    columns, groups, *_ = tiles.shape
    return np.ascontiguousarray(tiles.transpose(1, 3, 0, 2).reshape(groups * INPUTS, columns * OUTPUTS))


def padded_size(vocab_size: int) -> int:
    """Round the vocabulary up to whole blocks; the rows added are never chosen.

    >>> padded_size(32_000), padded_size(40_001)
    (32000, 40064)
    """
    return -(-vocab_size // BLOCK) * BLOCK


def check_shape(config: ModelConfig) -> None:
    """Refuse a model whose sizes do not fit the tiles."""
    d, hidden, head = config.d_model, config.d_hidden, config.d_model // config.n_heads
    if d % _IN or hidden % _IN or head % _HEAD or max(d, hidden) > _LARGEST:
        raise UserError(
            f"int8 is for models whose d_model and d_hidden are multiples of {_IN} up to {_LARGEST:,} and whose heads"
            f" are multiples of {_HEAD}, not {d}, {hidden} and {head}; fp32 takes any (--precision fp32)"
        )


def forms_of(config: ModelConfig) -> dict[str, Form]:
    """Name all arrays of a model, with type and shape, in the order of the file."""
    return dict(sorted(_forms(config), key=lambda named: _place(named[1])))  # sorting keeps the order of equals


def plain_forms(config: ModelConfig) -> dict[str, Form]:
    """Do as `forms_of` for arrays that are not packed: a linear map has a matrix (in, out)."""
    return {name: (dtype, _plain(shape)) for name, (dtype, shape) in forms_of(config).items()}


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[1] * INPUTS, shape[0] * OUTPUTS) if len(shape) == _TILES else shape


def _place(form: Form) -> int:
    """Put what keeps the next array aligned first, single bytes last."""
    return 0 if _size(form) % _ALIGNMENT == 0 else 1 + (form[0] == "U8")


def _forms(config: ModelConfig) -> Iterator[tuple[str, Form]]:
    d, hidden = config.d_model, config.d_hidden
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for index in range(layers):
            layer = f"{side}.layers.{index}"
            yield from _norm(f"{layer}.attention_norm", d)
            yield from _linear(f"{layer}.self_attention.qkv", d, 3 * d)  # queries, keys, values
            yield from _linear(f"{layer}.self_attention.output", d, d)
            if side == "decoder":
                yield from _norm(f"{layer}.cross_norm", d)
                yield from _linear(f"{layer}.cross_attention.query", d, d)
                yield from _linear(f"{layer}.cross_attention.output", d, d)
            yield from _norm(f"{layer}.feed_forward_norm", d)
            yield from _linear(f"{layer}.feed_forward.inner", d, hidden)
            yield from _linear(f"{layer}.feed_forward.outer", hidden, d)
        yield from _norm(f"{side}.norm", d)
    yield from _linear("memory", d, 2 * d * config.decoder_layers)  # keys and values of the source, layer by layer
    places = padded_size(config.vocab_size or 0)
    yield "embedding.weight", ("I8", (places, d))
    yield "embedding.scale", ("F32", (places,))
    yield from _rounding("embedding")  # of the rows that meet the output matrix, which is the embedding
    if config.stepwise:
        yield "segment_embedding", ("F32", (config.max_segments, d))
    if config.kind in ("nat", "cmlm"):
        yield "length.weight", ("F32", (LENGTHS, d))
        yield "length.bias", ("F32", (LENGTHS,))


def _norm(name: str, size: int) -> list[tuple[str, Form]]:
    return [(f"{name}.{part}", ("F32", (size,))) for part in ("weight", "bias")]


def _rounding(name: str) -> list[tuple[str, Form]]:
    return [(f"{name}.step", ("F32", (1,))), (f"{name}.zero", ("U8", (1,)))]


def _linear(name: str, inputs: int, outputs: int) -> list[tuple[str, Form]]:
    vectors: list[tuple[str, Form]] = [(f"{name}.{part}", ("F32", (outputs,))) for part in ("scale", "bias")]
    tiles = (outputs // OUTPUTS, inputs // INPUTS, OUTPUTS, INPUTS)
    return [(f"{name}.weight", ("I8", tiles)), *vectors, *_rounding(name)]


def _size(form: Form) -> int:
    dtype, shape = form
    return int(np.prod(shape)) * int(_TYPES[dtype].itemsize)


def write_int8(folder: Path, arrays: Arrays, config: ModelConfig) -> Path:
    """Write the file into a model folder; `arrays` are those of `forms_of`."""
    check_shape(config)
    forms, path = forms_of(config), folder / INT8
    if wrong := forms.keys() ^ arrays.keys():
        raise ValueError(f"arrays that are missing or unknown: {sorted(wrong)}")
    header: dict[str, Any] = {"__metadata__": {"format": FORMAT, "n_heads": str(config.n_heads)}}
    end = 0
    for name, (dtype, shape) in forms.items():
        if arrays[name].dtype != _TYPES[dtype] or arrays[name].shape != shape:
            raise ValueError(f"{name} is {arrays[name].dtype}{list(arrays[name].shape)}, not {dtype}{list(shape)}")
        start, end = end, end + _size((dtype, shape))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    with atomic_file(path) as scratch, open(scratch, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in forms:
            stream.write(np.ascontiguousarray(arrays[name]).data)
    return path


def read_int8(folder: Path, config: ModelConfig) -> dict[str, Array]:
    """Return all arrays by name, mapped and not read; refuse a damaged file, or that of another model."""
    path = folder / INT8
    check_shape(config)
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        header, start = _header(data)
        found = {name: _array(data, start, entry) for name, entry in header.items() if name != "__metadata__"}
        notes = dict(header["__metadata__"])
        size = start + max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        if size != data.size:
            raise ValueError(f"{data.size:,} bytes, not {size:,}")
    except FileNotFoundError:
        raise UserError(f"{folder}: no int8 weights here ({INT8} is missing); run 'recoversat export'") from None
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(f"{path}: damaged ({error}); export the model again") from None
    if notes.get("format") != FORMAT:
        raise UserError(f"{path}: written by another version ({notes.get('format')}); export the model again")
    _check_model(path, found, notes, config)
    return found


def read_plain(folder: Path, config: ModelConfig) -> dict[str, Array]:
    """Return all arrays by name, the packed ones as matrices (in, out)."""
    return {name: unpack(array) if array.ndim == _TILES else array for name, array in read_int8(folder, config).items()}


def _header(data: Array) -> tuple[dict[str, Any], int]:
    """Return the header, and where the arrays begin."""
    size = int.from_bytes(data[:8].tobytes(), "little")
    if not 0 < size <= min(_MOST_HEADER, data.size - 8):
        raise ValueError("its header is cut off")
    header: dict[str, Any] = json.loads(data[8 : 8 + size].tobytes())
    return header, 8 + size


def _array(data: Array, start: int, entry: Any) -> Array:
    (first, end), dtype, shape = entry["data_offsets"], entry["dtype"], tuple(entry["shape"])
    if not 0 <= first <= end or end - first != _size((dtype, shape)) or min(shape) < 1:
        raise ValueError(f"an array {dtype}{list(shape)} in {first:,} to {end:,}")
    place = start + first
    if place % (_ALIGNMENT if _size((dtype, shape)) % _ALIGNMENT == 0 else _TYPES[dtype].itemsize):
        raise ValueError(f"an array at {place:,}, which is no multiple of {_ALIGNMENT}")
    array: Array = data[place : start + end].view(_TYPES[dtype])
    return array.reshape(shape)


def _check_model(path: Path, found: Arrays, notes: Mapping[str, str], config: ModelConfig) -> None:
    """Compare names and shapes with config.json: engines take all sizes from there, and trust them."""
    wanted = forms_of(config)
    if notes.get("n_heads") != str(config.n_heads):
        raise _other_model(path, f"n_heads is {notes.get('n_heads')}, config.json says {config.n_heads}")
    for name, (dtype, shape) in wanted.items():
        if name not in found:
            raise _other_model(path, f"it has no {name}")
        array = found[name]
        if array.dtype != _TYPES[dtype] or array.shape != shape:
            raise _other_model(path, f"{name} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
    if more := found.keys() - wanted.keys():
        raise _other_model(path, f"config.json asks for no {min(more)}")


def _other_model(path: Path, why: str) -> UserError:
    return UserError(f"{path}: the weights of another model than config.json describes ({why})")
