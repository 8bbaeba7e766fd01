"""Watch a model decode and note how large the inputs of its products get."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from recoversat.engines.loading import engine_for
from recoversat.export.int8 import Range, Ranges
from recoversat.model.build import Model

OUTPUT = "embedding"  # the product that gives logits


def calibrate(model: Model, sources: Sequence[Sequence[int]], segments: Sequence[int]) -> Ranges:
    """Decode a sample of sources with each K and note the least and the largest input of every product."""
    seen: dict[str, Range] = {}

    def note(name: str, rows: Tensor) -> None:
        low, high = seen.get(name, (0.0, 0.0))  # 0 must be a value of its own: padding and ReLU have many
        seen[name] = (min(low, float(rows.min())), max(high, float(rows.max())))

    hooks = [
        module.register_forward_pre_hook(lambda _, inputs, name=name: note(name, inputs[0]))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    hooks.append(model.decoder.norm.register_forward_hook(lambda _, inputs, output: note(OUTPUT, output)))
    engine = engine_for(model, torch.device("cpu"))
    try:
        for k in segments:
            for source in sources:  # one by one: padding would be seen too
                engine.decode([source], np.array([k]))
    finally:
        for hook in hooks:
            hook.remove()
    return seen
