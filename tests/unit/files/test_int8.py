"""int8.safetensors: what is written is read again, and damage is an error."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from recoversat.config import ModelConfig
from recoversat.errors import UserError
from recoversat.files.int8 import INT8, Arrays, forms_of, pack, read_int8, unpack, write_int8

TYPES = {"F32": np.float32, "I8": np.int8, "U8": np.uint8}
SHAPE = {"d_model": 64, "d_hidden": 96, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 1, "vocab_size": 130}


def config(**changes: object) -> ModelConfig:
    return ModelConfig.model_validate(SHAPE | {"max_segments": 3} | changes)


def made_up(of: ModelConfig) -> Arrays:
    rng = np.random.default_rng(1)
    return {name: rng.integers(0, 100, shape).astype(TYPES[dtype]) for name, (dtype, shape) in forms_of(of).items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_int8(tmp_path, made_up(config()), config())
    return tmp_path


def test_a_tile_holds_four_inputs_of_sixteen_outputs() -> None:
    weight = np.arange(8 * 32).reshape(8, 32)
    tiles = pack(weight)
    assert tiles.shape == (2, 2, 16, 4)
    assert tiles[1, 0, 3].tolist() == [weight[i, 16 + 3] for i in range(4)]
    assert (unpack(tiles) == weight).all()


@pytest.mark.parametrize("kind", ["segments", "nat", "ctc"])
def test_what_is_written_is_read_and_lies_aligned(tmp_path: Path, kind: str) -> None:
    of = config(kind=kind)
    arrays = made_up(of)
    write_int8(tmp_path, arrays, of)
    found = read_int8(tmp_path, of)
    assert found.keys() == arrays.keys()
    for name, array in found.items():
        assert array.dtype == arrays[name].dtype
        assert (array == arrays[name]).all()
        assert array.ctypes.data % (64 if array.nbytes % 64 == 0 else array.itemsize) == 0, name
    assert ("segment_embedding" in found) == (kind == "segments")
    assert ("length.weight" in found) == (kind == "nat")


def test_the_library_reads_it_too(folder: Path) -> None:
    arrays = made_up(config())
    with safe_open(folder / INT8, "np") as opened:
        assert opened.metadata() == {"format": "recoversat-int8-1", "n_heads": "4"}
        assert set(opened.keys()) == arrays.keys()
        assert all((opened.get_tensor(name) == array).all() for name, array in arrays.items())


def test_arrays_are_mapped_not_read(folder: Path) -> None:
    for array in read_int8(folder, config()).values():
        assert not array.flags.owndata
        assert not array.flags.writeable


@pytest.mark.parametrize(
    "other",
    [
        {"n_heads": 2}, {"d_model": 32, "n_heads": 2}, {"d_hidden": 64}, {"vocab_size": 128}, {"encoder_layers": 1},
        {"encoder_layers": 3}, {"decoder_layers": 2}, {"max_segments": 4}, {"kind": "nat"},
    ],
)  # fmt: skip
def test_another_model_is_refused(folder: Path, other: dict[str, object]) -> None:
    with pytest.raises(UserError, match="weights of another model"):
        read_int8(folder, config(**other))


@pytest.mark.parametrize("other", [{"d_model": 48, "n_heads": 3}, {"d_hidden": 40}, {"n_heads": 8}])
def test_sizes_that_do_not_fit_the_tiles_are_refused(tmp_path: Path, other: dict[str, object]) -> None:
    with pytest.raises(UserError, match="--precision fp32"):
        write_int8(tmp_path, {}, config(**other))


def test_arrays_of_another_shape_are_not_written(tmp_path: Path) -> None:
    arrays = dict(made_up(config()))
    with pytest.raises(ValueError, match=r"encoder\.norm\.bias is float32\[63\], not F32\[64\]"):
        write_int8(tmp_path, arrays | {"encoder.norm.bias": np.zeros(63, dtype=np.float32)}, config())
    del arrays["memory.bias"]
    with pytest.raises(ValueError, match=r"memory\.bias"):
        write_int8(tmp_path, arrays, config())
    assert not list(tmp_path.iterdir())


def test_no_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="recoversat export"):
        read_int8(tmp_path, config())


def test_a_file_that_is_cut_off_or_longer_is_refused(folder: Path) -> None:
    path = folder / INT8
    whole = path.read_bytes()
    for cut in (0, 1, 7, 8, 100, 1000, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(UserError, match="damaged"):
            read_int8(folder, config())
    path.write_bytes(whole + b"\0")
    with pytest.raises(UserError, match="damaged"):
        read_int8(folder, config())


def test_a_header_with_other_bytes_is_refused_or_reads_within_the_file(folder: Path) -> None:
    path, rng = folder / INT8, np.random.default_rng(2)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[rng.integers(header)] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            found = read_int8(folder, config())
        except UserError:
            continue
        assert {name: (array.dtype, array.shape) for name, array in found.items()} == {
            name: (TYPES[dtype], shape) for name, (dtype, shape) in forms_of(config()).items()
        }


@pytest.mark.parametrize(
    "entry",
    [
        {"data_offsets": [0, 1 << 62]}, {"data_offsets": [-64, 192]}, {"data_offsets": [64, 0]}, {"data_offsets": 5},
        {"data_offsets": [1.5, 2.5]}, {"shape": [-1, -64]}, {"shape": [1 << 40, 1 << 40]}, {"shape": "ab"},
        {"dtype": "F16"}, {"dtype": None}, {"shape": []}, {"data_offsets": [4, 260]},
    ],
)  # fmt: skip
def test_sizes_out_of_range_are_refused(folder: Path, entry: dict[str, object]) -> None:
    path = folder / INT8
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    header["encoder.norm.weight"] |= entry
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])
    with pytest.raises(UserError, match=r"damaged|another model"):
        read_int8(folder, config())
