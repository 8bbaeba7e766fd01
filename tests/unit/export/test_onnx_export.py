from pathlib import Path

import numpy as np

from recoversat.config import ModelConfig
from recoversat.export.onnx import export_model
from recoversat.model.transformer import Transformer

CONFIG = ModelConfig(d_model=32, d_hidden=48, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=5000)


def weights_of(config: ModelConfig) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in Transformer(config).state_dict().items()}


def test_int8_holds_one_byte_for_each_weight(tmp_path: Path) -> None:
    weights = weights_of(CONFIG)
    fp32, int8 = (
        sum(path.stat().st_size for path in folder.iterdir()) for folder in export_model(weights, CONFIG, tmp_path)
    )
    parameters = sum(array.size for array in weights.values())
    assert int8 < 1.5 * parameters  # a second copy of the embedding would make it 2
    assert 4 * parameters < fp32 < 4.5 * parameters


def test_an_older_export_is_replaced_whole(tmp_path: Path) -> None:
    export_model(weights_of(CONFIG), CONFIG, tmp_path, ("int8",))
    (tmp_path / "int8" / "left over").write_text("x")
    export_model(weights_of(CONFIG), CONFIG, tmp_path, ("int8",))
    assert sorted(path.name for path in (tmp_path / "int8").iterdir()) == [
        "encoder.onnx", "probe.onnx", "sentence.onnx", "step.onnx", "weights.bin"
    ]  # fmt: skip
