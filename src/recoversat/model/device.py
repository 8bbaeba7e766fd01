"""Where tensors live."""

import os

import torch

from recoversat.config import check_device
from recoversat.errors import UserError


def torch_device(wanted: str) -> torch.device:
    """Turn cpu, cuda or auto into a device that is there; under torchrun each process has its own GPU."""
    check_device(wanted)
    kind = wanted if wanted != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    if not kind.startswith("cuda"):
        return torch.device(kind)
    if not torch.cuda.is_available():
        raise UserError(f"--device {wanted}: torch sees no GPU here; use --device cpu")
    # cuDNN plans its attention anew for every shape, and decoding meets a new shape each step: 30 ms a step
    torch.backends.cuda.enable_cudnn_sdp(False)
    own = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()  # several may share one
    return torch.device(f"cuda:{own}" if kind == "cuda" else kind)
