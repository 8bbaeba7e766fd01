"""What an engine runs on, for the signature of a result."""

import torch
from torch import nn

_PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def describe_torch(model: nn.Module, device: torch.device) -> dict[str, str | int]:
    """Name engine, precision, device and threads of a model that torch runs."""
    dtype = next(model.parameters()).dtype
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    precision = _PRECISIONS.get(dtype, str(dtype))
    return {"engine": "torch", "precision": precision, "device": name, "threads": torch.get_num_threads()}
