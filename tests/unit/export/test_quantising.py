"""int8 weights: rounded to half a step, the same numbers as ever, and a folder that holds them once."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from recoversat.config import ModelConfig
from recoversat.errors import UserError
from recoversat.export.checks import refuse_other_weights
from recoversat.export.int8 import quantise, quantised
from recoversat.export.old_folder import convert, int8_of_graphs, is_old
from recoversat.files.int8 import forms_of, padded_size, read_int8, read_plain, unpack
from recoversat.files.model_folder import read_config
from recoversat.model.transformer import Transformer
from recoversat.model.weights import read_weights
from tests.exported import measured, weights_of, write_exported
from tests.system.tiny_model import write_tiny_model

CONFIG = ModelConfig(
    d_model=32, d_hidden=64, n_heads=2, encoder_layers=1, decoder_layers=2, vocab_size=300, max_segments=4
)


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(1)
    made = Transformer(CONFIG)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, mean=0.1, std=0.5)
    return made


@pytest.mark.parametrize("axis", [0, 1])
def test_quantised_weights_differ_by_half_a_step_at_most(axis: int) -> None:
    weight = np.random.default_rng(1).normal(size=(40, 30)).astype(np.float32)
    values, scale = quantise(weight, axis)
    restored = values * np.expand_dims(scale, axis)
    assert (np.abs(restored - weight) <= np.expand_dims(scale, axis) * 0.5001).all()
    assert np.abs(values).max(axis=axis).tolist() == [127] * scale.size  # the whole range is used, -128 never


def test_a_channel_of_zeros_stays_zero() -> None:
    values, scale = quantise(np.zeros((3, 2), dtype=np.float32), axis=0)
    assert not values.any()
    assert np.isfinite(scale).all()


@pytest.mark.parametrize("size", [1, 127, 128, 129, 40_000])
def test_padded_vocabulary_is_whole_blocks_and_not_one_too_many(size: int) -> None:
    assert padded_size(size) % 128 == 0
    assert 0 <= padded_size(size) - size < 128


def test_every_array_is_where_engines_look_for_it(model: Transformer) -> None:
    weights, ranges = weights_of(model), measured(model)
    found = quantised(weights, CONFIG, ranges)
    assert {name: array.shape for name, array in found.items()} == {
        name: shape for name, (_, shape) in forms_of(CONFIG).items()
    }
    qkv = unpack(found["decoder.layers.1.self_attention.qkv.weight"])  # (in, out)
    scale = found["decoder.layers.1.self_attention.qkv.scale"]
    np.testing.assert_allclose(qkv * scale, weights["decoder.layers.1.self_attention.qkv.weight"].T, atol=scale.max())
    memory = unpack(found["memory.weight"]) * found["memory.scale"]
    second = weights["decoder.layers.1.cross_attention.key_value.weight"].T
    np.testing.assert_allclose(memory[:, 64:], second, atol=found["memory.scale"].max())
    low, high = ranges["decoder.layers.0.cross_attention.key_value"]
    assert found["memory.step"][0] == np.float32((high - low) / 255)
    assert all(found[name][0] == 0 for name in found if name.endswith("feed_forward.outer.zero"))


def test_other_weights_than_the_model_s_are_refused(model: Transformer) -> None:
    weights = weights_of(model)
    refuse_other_weights(weights, weights)
    for name in ("encoder.norm.bias", "encoder.layers.0.feed_forward.inner.weight"):
        with pytest.raises(UserError, match=name):
            refuse_other_weights(weights, weights | {name: weights[name] * 1.02})
    with pytest.raises(UserError, match=r"encoder\.norm\.bias"):
        refuse_other_weights(weights, {name: weights[name] for name in weights if name != "encoder.norm.bias"})


def test_int8_holds_one_byte_for_each_weight_and_fp32_four(model: Transformer, tmp_path: Path) -> None:
    write_exported(model, tmp_path)
    parameters = sum(array.size for array in weights_of(model).values())
    assert (tmp_path / "int8.safetensors").stat().st_size < 1.8 * parameters  # headers and scales of a tiny model
    assert 4 * parameters < (tmp_path / "onnx/fp32/weights.bin").stat().st_size < 5 * parameters


def test_an_older_export_is_replaced_whole(model: Transformer, tmp_path: Path) -> None:
    write_exported(model, tmp_path)
    for precision in ("int8", "fp32"):
        (tmp_path / "onnx" / precision / "left over").write_text("x")
    write_exported(model, tmp_path)
    found = {
        precision: sorted(path.name for path in (tmp_path / "onnx" / precision).iterdir())
        for precision in ("int8", "fp32")
    }
    assert found == {
        "int8": ["encoder.onnx", "probe.onnx", "step.onnx"], "fp32": ["encoder.onnx", "step.onnx", "weights.bin"],
    }  # fmt: skip


def write_old_folder(folder: Path) -> Path:
    """Write a model as it was exported before: int8 graphs whose constants are the weights, parts of products apart."""
    write_tiny_model(folder)
    config, _ = read_config(folder)
    network = Transformer(config.model)
    network.load_state_dict(read_weights(folder))
    write_exported(network, folder, "int8")
    constants: dict[str, np.ndarray] = {}
    for name, array in read_plain(folder, config.model).items():
        product, _, what = name.rpartition(".")
        if what in ("step", "zero"):
            key = "decoder.layers.0.cross_attention.key_value" if product == "memory" else product
            constants[f"{key}.{what}"] = array.reshape(())
        elif name == "embedding.weight":
            constants["embedding"] = array
        elif product in ("memory", "embedding") or f"{product}.scale" not in read_plain(folder, config.model):
            constants[name] = array
        else:
            parts = np.split(array, 3 if product.endswith("qkv") else 1, axis=-1)
            constants |= {f"{product}.{n}.{what}": part for n, part in enumerate(parts)}
    old = folder / "onnx" / "int8"
    shutil.rmtree(old)
    old.mkdir()
    for file, mine in (("encoder.onnx", ("encoder.", "memory")), ("step.onnx", ("decoder.", "embedding", "segment"))):
        tensors = [numpy_helper.from_array(constants[name], name) for name in constants if name.startswith(mine)]
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [value], tensors)
        onnx.save_model(
            helper.make_model(graph), old / file, save_as_external_data=True, location="weights.bin", size_threshold=64
        )
    (folder / "onnx" / "shortlist.npz").write_bytes(b"list")
    (folder / "int8.safetensors").rename(folder.parent / "int8.safetensors")  # what conversion must give
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    return folder


def test_a_converted_folder_has_the_same_numbers_as_a_new_export(tmp_path: Path) -> None:
    old, new = write_old_folder(tmp_path / "old"), tmp_path / "new"
    assert is_old(old)
    assert not is_old(tmp_path)
    convert(old, new, force=False)
    assert (new / "int8.safetensors").read_bytes() == (tmp_path / "int8.safetensors").read_bytes()
    assert sorted(path.name for path in new.rglob("*") if path.is_file()) == [
        "README.md", "config.json", "encoder.onnx", "int8.safetensors", "probe.onnx", "shortlist.npz", "step.onnx",
        "vocabulary.txt",
    ]  # fmt: skip
    with pytest.raises(UserError, match="--force"):
        convert(old, new, force=False)


def test_what_cannot_be_converted_says_what_to_do(tmp_path: Path) -> None:
    old = write_old_folder(tmp_path / "old")
    config = read_config(old)[0].model
    with pytest.raises(UserError, match="or another model"):
        int8_of_graphs(old / "onnx/int8", config.model_copy(update={"decoder_layers": 3}))
    (old / "onnx/int8/step.onnx").write_bytes(b"\0")
    with pytest.raises(UserError, match="export the model again from its checkpoint"):
        int8_of_graphs(old / "onnx/int8", config)


def test_the_built_in_model_is_what_its_format_says() -> None:
    from recoversat.files.model_folder import builtin_models

    for folder in builtin_models():
        config = read_config(folder)[0].model
        assert read_int8(folder, config).keys() == forms_of(config).keys()
