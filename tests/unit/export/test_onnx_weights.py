from pathlib import Path

import numpy as np
import pytest

from recoversat.export.onnx_weights import WeightFile, padded_size, quantise


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


def test_an_array_shared_by_two_graphs_is_stored_once(tmp_path: Path) -> None:
    array, other = np.arange(100, dtype=np.float32), np.arange(10, dtype=np.int8)
    with open(tmp_path / "weights.bin", "wb") as stream:
        file = WeightFile(stream)
        first, again, second = file.tensor("a", array), file.tensor("a", array), file.tensor("b", other)
    places = [{entry.key: entry.value for entry in tensor.external_data} for tensor in (first, again, second)]
    assert places[0] == places[1]
    stored = (tmp_path / "weights.bin").read_bytes()
    offset = int(places[2]["offset"])
    assert offset % 64 == 0
    assert np.frombuffer(stored, np.int8, 10, offset).tolist() == other.tolist()
    assert np.frombuffer(stored, np.float32, 100, int(places[0]["offset"])).tolist() == array.tolist()
    assert len(stored) < 2 * array.nbytes


@pytest.mark.parametrize("size", [1, 127, 128, 129, 40_000])
def test_padded_vocabulary_is_whole_blocks_and_not_one_too_many(size: int) -> None:
    assert padded_size(size) % 128 == 0
    assert 0 <= padded_size(size) - size < 128
