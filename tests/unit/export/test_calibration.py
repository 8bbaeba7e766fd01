"""Scales for int8 cover what a model was seen to compute."""

import torch
from torch import nn

from recoversat.config import ModelConfig
from recoversat.export.calibration import OUTPUT, calibrate
from recoversat.export.int8 import steps_of
from recoversat.model.transformer import Transformer

CONFIG = ModelConfig(
    d_model=16, d_hidden=24, n_heads=2, encoder_layers=1, decoder_layers=2, vocab_size=40, max_segments=4
)


def test_every_product_has_a_range_that_holds_all_its_inputs() -> None:
    torch.manual_seed(1)
    model = Transformer(CONFIG).eval()
    ranges = calibrate(model, [[5, 6, 7], [8, 9]], [1, 4])
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert set(ranges) == linear | {OUTPUT}
    assert all(low <= 0 <= high and low < high for low, high in ranges.values())
    wider = calibrate(model, [[5, 6, 7], [8, 9], [10, 11, 12, 13]], [1, 4])
    assert all(wider[name][0] <= low and wider[name][1] >= high for name, (low, high) in ranges.items())
    relu = [name for name in ranges if name.endswith("feed_forward.outer")]
    assert all(ranges[name][0] == 0 for name in relu)


def test_hooks_are_gone_afterwards() -> None:
    model = Transformer(CONFIG).eval()
    calibrate(model, [[5, 6]], [2])
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_zero_is_exact() -> None:
    for seen in ((0.0, 3.0), (-2.0, 0.0), (-0.3, 7.1), (0.0, 0.0)):
        step, zero = steps_of(seen)
        assert 0 <= zero <= 255
        assert step > 0
