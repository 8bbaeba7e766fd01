"""The compiled loss of a run is that run's own, whatever was compiled before it on the same machine."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F  # noqa: N812

from recoversat.training.loss import smoothed_cross_entropy
from recoversat.vocab import PAD


def compare_with_plain_formula(vocabulary: int, smoothing: float, dtype: torch.dtype) -> None:
    """Compare loss and gradients of the compiled loss with what autograd makes of torch's own."""
    torch.manual_seed(0)
    hidden = torch.randn(1030, 8).to(dtype).requires_grad_()  # more rows than fit a chunk: the last one is short
    weight = (torch.randn(vocabulary, 8) * 0.3).to(dtype).requires_grad_()
    labels = torch.randint(1, vocabulary, (1030,))
    labels[::5] = PAD
    ours = smoothed_cross_entropy(hidden, weight, labels, smoothing, fused=True).smoothed
    logits = (hidden @ weight.T).float()
    theirs = F.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2  # of the whole gradient; bf16 sums weights chunk by chunk
    for mine, other in zip(
        torch.autograd.grad(ours, [hidden, weight]), torch.autograd.grad(theirs, [hidden, weight]), strict=True
    ):
        difference = (mine.float() - other.float()).norm() / other.float().norm()
        assert difference < tolerance, f"V {vocabulary}, smoothing {smoothing}, {dtype}: off by {difference:.1%}"


def test_one_run_after_the_other_in_one_compile_cache(tmp_path: Path) -> None:
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    for runs in ("400 0.15 float32 120 0.2 bfloat16", "80 0.1 float32 90 0.05 bfloat16", "500 0 float32"):
        command = [sys.executable, __file__, *runs.split()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()), "nothing was compiled"


if __name__ == "__main__":
    for size, mass, kind in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True):
        compare_with_plain_formula(int(size), float(mass), getattr(torch, kind))
