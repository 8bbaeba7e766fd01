from pathlib import Path

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.engines.engine import Engine
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.export.onnx import compare_bleu, export_model
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
        "encoder.onnx", "probe.onnx", "step.onnx", "weights.bin"
    ]  # fmt: skip


def test_unknown_precision_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are: fp32, int8"):
        export_model(weights_of(CONFIG), CONFIG, tmp_path, ("int4",))  # type: ignore[arg-type]


def test_the_one_step_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nat cannot be exported"):
        export_model(weights_of(CONFIG), CONFIG.model_copy(update={"kind": "nat"}), tmp_path)


def test_a_loss_of_quality_is_refused_unless_forced() -> None:
    good = TorchEngine(Transformer(CONFIG), torch.device("cpu"))
    bad = TorchEngine(Transformer(CONFIG), torch.device("cpu"))

    def bleu(engine: Engine) -> float:
        return 30.0 if engine is good else 29.5

    with pytest.raises(UserError, match=r"loses 0\.50 BLEU \(30\.00 -> 29\.50\)"):
        compare_bleu(good, bad, bleu)
    assert compare_bleu(good, bad, bleu, force=True).change == -0.5
    assert compare_bleu(bad, good, bleu).change == 0.5
    assert compare_bleu(good, bad, bleu, max_loss=0.5).change == -0.5
