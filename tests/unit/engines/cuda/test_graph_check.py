"""The script that checks and times the GPU engine runs, on a CPU too; the comparison of kernels notices wrong ones."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from recoversat.config import ModelConfig
from recoversat.engines.cuda import layers
from recoversat.engines.cuda.check import check_few_rows, check_ops
from recoversat.engines.cuda.layers import FewRowsFinder, ManyRows
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


class WrongJudge(PlainOps):
    """Takes the second best for the best, or thinks too well of labels."""

    def __init__(self, wrong: int) -> None:
        self._wrong = wrong

    def judge(self, logits: Tensor, labels: Tensor, found: Tensor) -> None:
        super().judge(logits, labels, found)
        found[self._wrong] += 0.5


@torch.inference_mode()
def test_kernels_that_differ_are_noticed(weights: Weights) -> None:
    check_ops(PlainOps(), PlainOps(), weights)
    with pytest.raises(AssertionError):
        check_ops(WrongNorm(), PlainOps(), weights)
    with pytest.raises(RuntimeError, match="other"):
        check_ops(WrongChoice(), PlainOps(), weights)
    for wrong in range(3):
        with pytest.raises((AssertionError, RuntimeError)):
            check_ops(WrongJudge(wrong), PlainOps(), weights)


def test_plain_operations_are_used_on_a_cpu_and_where_fused_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "recoversat.engines.cuda.kernels", None)  # as if Triton were missing
    assert find_ops(torch.device("cpu"), lambda fused, plain: None, wanted=None).name == "plain"
    assert find_ops(torch.device("cuda"), lambda fused, plain: None, wanted=None).name == "plain"
    with pytest.raises(ImportError):
        find_ops(torch.device("cuda"), lambda fused, plain: None, wanted=True)


class Few(ManyRows):
    most_rows = 8


class Forgetful(Few):
    """Sees the newest rows, but does not keep them."""

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        result = super().attend_rows(x, y, block, rows, layer, n_seen)
        rows.caches[layer][:, rows.newest] = 0
        return result


class Unmasked(Few):
    def attend_source(self, x: Tensor, y: Tensor, block: Block, memory: Memory, layer: int) -> tuple[Tensor, Tensor]:
        return super().attend_source(x, y, block, Memory(memory.keys_values, memory.mask * 0), layer)


class Biased(Few):
    def project(self, x: Tensor, affine: Affine) -> Tensor:
        return super().project(x, affine) + torch.arange(x.shape[1]) / 10


class Unsummed(Few):
    def feed(self, x: Tensor, y: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        return x.clone(), super().feed(x, y, block)[1]


class Padded(Few):
    """Its encoder sees what is no source."""

    def encode(self, src: Tensor, positions: Tensor, memory: Memory) -> None:
        super().encode(src, positions, Memory(memory.keys_values, memory.mask * 0))


class SeesAhead(Few):
    """Lets the rows of a pass see those after them."""

    def attend_rows(
        self, x: Tensor, y: Tensor, block: Block, rows: Rows, layer: int, n_seen: int
    ) -> tuple[Tensor, Tensor]:
        rows = replace(rows, mask=rows.mask.amax(dim=1, keepdim=True))
        return super().attend_rows(x, y, block, rows, layer, n_seen)


class SecondBest(Few):
    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        before = state.log_tokens.clone()
        super().write(state, rows, n_seen, memory)
        state.log_tokens[state.log_tokens != before] += 1


class Late(Few):
    """Notes tokens, and remembers no step."""

    def write(self, state: SegmentState, rows: Rows, n_seen: int, memory: Memory) -> None:
        super().write(state, rows, n_seen, memory)
        state.row_mask[:] = 0


@torch.inference_mode()
@pytest.mark.parametrize("wrong", [Forgetful, Unmasked, Biased, Unsummed, Padded, SeesAhead, SecondBest, Late])
def test_layers_of_few_rows_that_differ_are_noticed(wrong: type[ManyRows], weights: Weights) -> None:
    check_few_rows(weights, partial(Few, ops=PlainOps()), 8, 16)
    with pytest.raises((AssertionError, RuntimeError)):
        check_few_rows(weights, partial(wrong, ops=PlainOps()), 8, 16)


ON_A_GPU: Any = SimpleNamespace(device=torch.device("cuda"))  # weights of which nobody asks for more


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch, weights: Weights) -> dict[str, Few]:
    found = {name: Few(weights, PlainOps()) for name in ("early", "overlapping", "few rows, early", "few rows")}
    for name, kind in found.items():
        kind.most_rows = 32 if name.startswith("few rows") else 16
    monkeypatch.setattr(layers, "_overlapping", lambda _, ops, early: found["early" if early else "overlapping"])
    monkeypatch.setattr(layers, "_few_rows", lambda _, ops, early: found["few rows, early" if early else "few rows"])
    return found


def test_kernels_for_few_rows_are_checked_once_when_they_are_asked_for(kinds: dict[str, Few]) -> None:
    asked: list[tuple[object, ...]] = []
    find = FewRowsFinder(ON_A_GPU, PlainOps(), lambda make, *sizes: asked.append((make(ON_A_GPU), *sizes)), None).find
    assert not asked
    assert find(1, 10, 25) is find(1, 16, 32) is find(1, 1, 17) is kinds["early"]
    assert asked == [(kinds["early"], 16, 32)]
    assert (
        find(1, 20, 25) is find(2, 20, 30) is find(4, 32, 32) is kinds["few rows, early"]
    )  # the others do not take so many
    assert find(1, 1, 200) is find(1, 1, 100) is kinds["early"]
    assert asked[1:] == [(kinds["few rows, early"], 32, 32), (kinds["early"], 16, 128)]
    assert find(5, 1, 1) is find(1, 33, 1) is None


def test_where_kernels_for_few_rows_fail_others_are_used(kinds: dict[str, Few], weights: Weights) -> None:
    wrong = ["early"]

    def check(make: layers.Make, n_rows: int, length: int) -> None:
        if any(make(ON_A_GPU) is kinds[name] for name in wrong):
            raise RuntimeError("they differ")

    assert FewRowsFinder(ON_A_GPU, PlainOps(), check, None).find(1, 5, 9) is kinds["overlapping"]
    wrong += ["overlapping"]
    assert FewRowsFinder(ON_A_GPU, PlainOps(), check, None).find(1, 5, 9) is kinds["few rows, early"]
    wrong += ["few rows, early"]
    assert FewRowsFinder(ON_A_GPU, PlainOps(), check, None).find(1, 5, 9) is kinds["few rows"]
    wrong += ["few rows"]
    assert FewRowsFinder(ON_A_GPU, PlainOps(), check, None).find(1, 5, 9) is None
    assert FewRowsFinder(weights, PlainOps(), check, None).find(1, 5, 9) is None  # on a CPU nobody wants them
    with pytest.raises(RuntimeError, match="differ"):
        FewRowsFinder(weights, PlainOps(), check, wanted=True).find(1, 5, 9)


def test_few_rows_are_written_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("overlapping", "few_rows"):
        monkeypatch.setitem(sys.modules, f"recoversat.engines.cuda.{module}", None)
    assert FewRowsFinder(ON_A_GPU, PlainOps(), lambda make, *sizes: None, None).find(1, 5, 9) is None


def run_with_triton(program: str, **environment: str) -> None:
    """Run a program of its own, where Triton is installed."""
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_kernels_for_few_rows_do_what_torch_does() -> None:
    """Triton's interpreter runs them on a CPU; the check raises where they differ."""
    run_with_triton(
        """
from functools import partial
import numpy as np
import torch
from benchmarks.gpu_check import lively_model
from recoversat.config import ModelConfig
from recoversat.engines.cuda import check, few_rows, overlapping
from recoversat.engines.cuda.early import can_begin_early
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.ops import PlainOps
from recoversat.engines.engine import Options
from recoversat.engines.torch.engine import TorchEngine
from recoversat.inference.exact import decode_exactly
few_rows._UNITS = overlapping._UNITS = 64  # fewer programs: the interpreter runs one after the other
config = ModelConfig(d_model=128, d_hidden=64, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=120)
model, cpu = lively_model(config), torch.device("cpu")
engine, reference = GraphEngine(model, cpu, torch.float32, fused=True), TorchEngine(lively_model(config), cpu)
assert not can_begin_early(cpu)
asked = [[7, 8, 9, 10, 11]], np.array([3]), Options(limits=np.array([5]))
expected, got = reference.decode(*asked)[0], engine.decode(*asked)[0]  # which checks the kernels
assert isinstance(engine._model.layers(1, 3, 5), overlapping.Overlapping)
assert (got.segments, got.steps) == (expected.segments, expected.steps)
np.testing.assert_allclose(np.concatenate(got.log_probs), np.concatenate(expected.log_probs), atol=2e-4)
verified = decode_exactly(engine, *asked)[0]
assert verified.segments == engine.decode(asked[0], np.array([1]), asked[2])[0].segments
check._FORCED = {1: 2, 2: 2}
with torch.inference_mode():
    check.check_few_rows(engine._model.weights, partial(few_rows.FewRows, ops=PlainOps()), 16, 16)
""",
        TRITON_INTERPRET="1",
    )


def test_kernels_that_begin_early_can_be_compiled(tmp_path: Path) -> None:
    """Triton compiles for a GPU that is not there; no kernel takes more of its chip than there is."""
    run_with_triton(
        """
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

class Hopper:
    get_current_target = lambda self: GPUTarget("cuda", 90, 32)
    get_current_device = get_current_stream = lambda self, device=0: 0

driver.set_active(Hopper())
run, compiled = JITFunction.run, []
def only_compile(self, *args, grid, warmup, **named):
    compiled.append(run(self, *args, grid=grid, warmup=True, **named))
JITFunction.run = only_compile

from recoversat.config import ModelConfig
from recoversat.engines.cuda import overlapping, vocabulary
from recoversat.engines.cuda.check import _Trial
from recoversat.engines.cuda.ops import PlainOps
from recoversat.engines.cuda.weights import collect_weights
from recoversat.model.transformer import Transformer
overlapping.can_begin_early = lambda device: True
config = ModelConfig(d_model=512, d_hidden=512, n_heads=8, encoder_layers=1, decoder_layers=1, vocab_size=300)
weights = collect_weights(Transformer(config), torch.device("cpu"), torch.float16)
assert overlapping.Overlapping.fits(weights)
with torch.inference_mode():
    few = overlapping.Overlapping(weights, PlainOps())
    _Trial(few, weights, few.most_rows, 64, batch=1).write(2)
    begins = [0, len(compiled)]
    _Trial(few, weights, few.most_rows, 64, batch=1).encode()
for kernel in compiled:
    assert kernel.metadata.shared <= 227 * 1024, (kernel.name, kernel.metadata.shared)
    text = kernel.asm["ptx"]
    before, wait, after = text.partition("griddepcontrol.wait")
    assert wait, kernel.name
    assert "st.global" not in before, kernel.name
    assert "griddepcontrol.launch_dependents" not in before, kernel.name
    assert "griddepcontrol.launch_dependents" in after, kernel.name
assert [at for at, kernel in enumerate(compiled) if not kernel.metadata.launch_pdl] == begins  # what waits for all
""",
        TRITON_CACHE_DIR=str(tmp_path),
    )


@pytest.mark.parametrize("compute_type", ["float16", "bfloat16"])
def test_half_precision_is_refused_on_a_cpu(tmp_path: Path, compute_type: str) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match="on a GPU"):
        load_engine(tmp_path, CONFIG, EngineOptions("cpu", compute_type))  # type: ignore[arg-type]
