"""The script that checks and times the GPU engine runs, on a CPU too; the comparison of kernels notices wrong ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recoversat.config import ModelConfig
from recoversat.engines.cuda.check import check_few_rows, check_ops
from recoversat.engines.cuda.layers import MOST_ROWS, MOST_SENTENCES, ManyRows, find_few_rows
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.ops import PlainOps, find_ops
from recoversat.engines.cuda.state import Memory, Rows, SegmentState
from recoversat.engines.cuda.weights import Affine, Block, Norm, Weights, collect_weights
from recoversat.engines.loading import EngineOptions, load_engine
from recoversat.errors import UserError
from recoversat.model.transformer import Transformer

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "gpu_check.py"
CONFIG = ModelConfig(d_model=12, d_hidden=16, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=50)


def test_the_script_runs_on_a_cpu(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [
        sys.executable,
        str(SCRIPT),
        "--device",
        "cpu",
        "--quick",
        "--sentences",
        "9",
        "--batches",
        "2",
        "--seconds",
        "500",
    ]
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


class Forgetful(ManyRows):
    """Sees the newest rows, but does not keep them."""

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        result = super().attend_rows(x, y, block, rows, layer, n_seen)
        rows.caches[layer][:, rows.newest] = 0
        return result


class Unmasked(ManyRows):
    def attend_source(self, x: Tensor, y: Tensor, block: Block, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        return super().attend_source(x, y, block, Memory(memory.keys_values, memory.mask * 0), layer)


class Biased(ManyRows):
    def project(self, x: Tensor, affine: Affine) -> Tensor:
        return super().project(x, affine) + 1


class Unsummed(ManyRows):
    def feed(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        return x.clone(), super().feed(x, y, block)[1]


@torch.inference_mode()
@pytest.mark.parametrize("wrong", [Forgetful, Unmasked, Biased, Unsummed])
def test_layers_of_few_rows_that_differ_are_noticed(wrong: type[ManyRows], weights: Weights) -> None:
    check_few_rows(ManyRows(weights, PlainOps()), weights)
    with pytest.raises(AssertionError):
        check_few_rows(wrong(weights, PlainOps()), weights)


def test_few_rows_have_kernels_of_their_own_where_those_work(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ManyRows(weights, PlainOps())
    model = GraphModel(weights, PlainOps(), few)
    assert model.layers(MOST_SENTENCES, MOST_ROWS) is few
    assert model.layers(MOST_SENTENCES + 1, 1) is not few
    assert model.layers(1, MOST_ROWS + 1) is not few
    monkeypatch.setitem(sys.modules, "recoversat.engines.cuda.few_rows", None)  # as if Triton were missing
    assert find_few_rows(weights, lambda few: None, wanted=None) is None
    with pytest.raises(ImportError):
        find_few_rows(weights, lambda few: None, wanted=True)


def test_kernels_for_few_rows_do_what_torch_does() -> None:
    """Triton's interpreter runs them on a CPU, where Triton is installed."""
    pytest.importorskip("triton")
    program = """
import torch
from recoversat.config import ModelConfig
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.model.transformer import Transformer
config = ModelConfig(d_model=128, d_hidden=64, n_heads=2, encoder_layers=1, decoder_layers=2, vocab_size=300)
engine = GraphEngine(Transformer(config), torch.device("cpu"), torch.float32, fused=True)  # raises where they differ
assert engine._model.few_rows is not None
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compute_type", ["float16", "bfloat16"])
def test_half_precision_is_refused_on_a_cpu(tmp_path: Path, compute_type: str) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match="on a GPU"):
        load_engine(tmp_path, CONFIG, EngineOptions("cpu", compute_type))  # type: ignore[arg-type]
