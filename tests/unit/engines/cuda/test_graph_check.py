"""The script that checks and times the GPU engine runs, on a CPU too; the comparison of kernels notices wrong ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recoversat.config import ModelConfig
from recoversat.engines.cuda.check import check_ops
from recoversat.engines.cuda.ops import PlainOps, find_ops
from recoversat.engines.cuda.state import SegmentState
from recoversat.engines.cuda.weights import Norm, Weights, collect_weights
from recoversat.engines.loading import EngineOptions, load_engine
from recoversat.errors import UserError
from recoversat.model.transformer import Transformer

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "gpu_check.py"
CONFIG = ModelConfig(d_model=12, d_hidden=16, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=50)


def test_the_script_runs_on_a_cpu(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--quick", "--sentences", "9", "--batches", "2"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert not report["failures"]
    assert all(row["same"] == row["of"] for row in report["checks"])
    assert {row["batch"] for row in report["timings"]} == {2}
    assert any(row["name"].startswith("eager") for row in report["timings"])


@pytest.fixture
def weights() -> Weights:
    return collect_weights(Transformer(CONFIG), torch.device("cpu"), torch.float32)


class WrongNorm(PlainOps):
    def add_norm(self, x: Tensor, y: Tensor, norm: Norm) -> Tensor:
        return super().add_norm(x, y, norm) * 1.1


class WrongChoice(PlainOps):
    def choose(self, logits: Tensor, state: SegmentState) -> None:
        logits[:, 9] += 50
        super().choose(logits, state)


@torch.inference_mode()
def test_kernels_that_differ_are_noticed(weights: Weights) -> None:
    check_ops(PlainOps(), PlainOps(), weights)
    with pytest.raises(AssertionError):
        check_ops(WrongNorm(), PlainOps(), weights)
    with pytest.raises(RuntimeError, match="other"):
        check_ops(WrongChoice(), PlainOps(), weights)


def test_plain_operations_are_used_on_a_cpu_and_where_fused_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "recoversat.engines.cuda.kernels", None)  # as if Triton were missing
    assert find_ops(torch.device("cpu"), lambda fused, plain: None, wanted=None).name == "plain"
    assert find_ops(torch.device("cuda"), lambda fused, plain: None, wanted=None).name == "plain"
    with pytest.raises(ImportError):
        find_ops(torch.device("cuda"), lambda fused, plain: None, wanted=True)


@pytest.mark.parametrize("compute_type", ["float16", "bfloat16"])
def test_half_precision_is_refused_on_a_cpu(tmp_path: Path, compute_type: str) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match="on a GPU"):
        load_engine(tmp_path, CONFIG, EngineOptions("cpu", compute_type))  # type: ignore[arg-type]
