"""Choose the engine by what a model folder holds; torch and ONNX Runtime are imported only where they are used."""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from recoversat.config import ModelConfig, check_device
from recoversat.engines.cores import usable_cores
from recoversat.engines.engine import Engine
from recoversat.engines.interleaved import in_reading_order
from recoversat.errors import UserError
from recoversat.files.int8 import INT8
from recoversat.files.model_folder import ONNX, WEIGHTS, is_int8_alone

if TYPE_CHECKING:
    import torch

    from recoversat.engines.native.engine import NativeEngine
    from recoversat.model.build import Model

ComputeType = Literal["default", "int8", "int8_onnx", "int8_native", "float16", "bfloat16", "float32"]
NATIVE = "int8_native"  # "int8", but only by the engine in C++
_INT8 = ("int8", "int8_onnx", NATIVE)
_HALF = ("float16", "bfloat16")  # for GPUs


@dataclass(frozen=True)
class EngineOptions:
    """What a user may ask of an engine, in CTranslate2's words."""

    device: str = "auto"
    compute_type: ComputeType = "default"
    intra_threads: int = 0  # 0 = all there are
    max_memory: int | None = None  # bytes, beside the weights

    def __post_init__(self) -> None:
        if self.compute_type not in (known := get_args(ComputeType)):
            raise UserError(f"unknown compute type {self.compute_type!r}; choose {', '.join(known)}")
        check_device(self.device)
        if self.intra_threads < 0 or (self.max_memory is not None and self.max_memory < 1):
            raise UserError("threads and memory are bounded by positive numbers")


def load_engine(folder: Path, config: ModelConfig, options: EngineOptions) -> Engine:
    """Load the int8 weights of a folder on a CPU, else its fp32 graphs, else its torch weights: on a GPU in fp16."""
    kind, on_cpu = options.compute_type, options.device in ("auto", "cpu")
    threads = options.intra_threads or usable_cores()
    has_int8, has_graphs, has_weights = (folder / INT8).is_file(), _has_fp32(folder), (folder / WEIGHTS).is_file()
    is_old = not has_int8 and (folder / ONNX / "int8" / "weights.bin").is_file()
    if is_old and (on_cpu or not has_weights) and kind != "float32":
        raise UserError(f"{folder}: exported by an older version; convert it by 'recoversat export {folder} NEW'")
    if on_cpu and has_int8 and kind in ("default", *_INT8):
        return _int8_engine(folder, config, kind, threads, options.max_memory)
    if on_cpu and has_graphs and kind in ("default", "float32"):
        return onnx_engine(folder, "fp32", config, threads, options.max_memory)
    if kind in _INT8:
        where = "runs on a CPU; leave it out" if has_int8 else f"needs {INT8}: recoversat export MODEL OUT"
        raise UserError(f"{folder}: compute type {kind} {where}")
    if has_graphs and not (has_weights or has_int8):
        raise UserError(f"{folder} holds fp32 graphs alone; use device cpu and compute type float32")
    return _load_torch(folder, config, options)


def is_exported(folder: Path) -> bool:
    """Say whether a folder has what runs without torch, and whose decoding can be bounded in memory."""
    return (folder / INT8).is_file() or _has_fp32(folder)


def _has_fp32(folder: Path) -> bool:
    return (folder / ONNX / "fp32").is_dir()


def onnx_engine(
    folder: Path, precision: str, config: ModelConfig, threads: int, max_memory: int | None = None
) -> Engine:
    """Open the graphs of one precision, "int8" or "fp32"."""
    from recoversat.engines.onnx.engine import OnnxEngine
    from recoversat.engines.onnx.one_step import OnnxOneStepEngine

    if config.stepwise:
        return in_reading_order(OnnxEngine(folder, precision, config, threads, max_memory), config)
    if max_memory is not None:
        raise UserError(f"{folder}: the memory of a {config.kind!r} model cannot be bounded; leave the bound out")
    return OnnxOneStepEngine(folder, precision, config)


def _int8_engine(folder: Path, config: ModelConfig, kind: str, threads: int, max_memory: int | None) -> Engine:
    """Open int8 weights by the engine in C++, or by ONNX Runtime where that is asked for or all there is."""
    if not config.stepwise and kind == NATIVE:
        raise UserError(f"compute type {NATIVE} cannot run a {config.kind!r} model; use int8")
    if not config.stepwise or kind == "int8_onnx":
        return onnx_engine(folder, "int8", config, threads, max_memory)
    if native := native_engine():
        return in_reading_order(native(folder, config, threads, max_memory), config)
    if kind == NATIVE:
        raise UserError(f"compute type {NATIVE}: the engine in C++ is not installed; use int8")
    _tell_what_is_missing()
    return onnx_engine(folder, "int8", config, threads, max_memory)


def native_engine() -> "type[NativeEngine] | None":
    """Return the engine in C++, where it is installed."""
    try:
        from recoversat.engines.native.engine import NativeEngine
    except ImportError:
        return None
    return NativeEngine


@cache  # once
def _tell_what_is_missing() -> None:
    print(
        "warning: the engine in C++ is not installed, and ONNX Runtime takes more than twice as long;"
        " 'pip install recoversat' gets its wheel for x86-64 and aarch64 Linux",
        file=sys.stderr,
    )


def _load_torch(folder: Path, config: ModelConfig, options: EngineOptions) -> Engine:
    try:
        import torch

        from recoversat.engines.cuda.engine import GraphEngine
        from recoversat.engines.cuda.one_step import GraphOneStepEngine
        from recoversat.model.device import torch_device
        from recoversat.model.exported import load_exported
        from recoversat.model.transformer import Transformer
        from recoversat.model.weights import load_model
    except ImportError:
        if is_int8_alone(folder):
            asked = f"device {options.device} with compute type {options.compute_type}"
            raise UserError(f"{folder}: {asked} needs torch: pip install 'recoversat[train]'") from None
        raise UserError(f"{folder} holds torch weights: pip install 'recoversat[train]', or export it") from None
    if options.max_memory is not None:
        raise UserError(f"{folder}: the memory of torch cannot be bounded; use an exported model on a CPU, in int8")
    if options.intra_threads:
        torch.set_num_threads(options.intra_threads)
    device, kind = torch_device(options.device), options.compute_type
    if kind in _HALF and device.type != "cuda":
        raise UserError(f"compute type {kind} is for models on a GPU; use float32")
    model, _ = load_exported(folder) if is_int8_alone(folder) else load_model(folder)
    if device.type != "cuda":
        return engine_for(model, device)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(kind, torch.float16)
    if not isinstance(model, Transformer):
        return GraphOneStepEngine(model, device, dtype)
    return in_reading_order(GraphEngine(model, device, dtype), config)


def engine_for(model: "Model", device: "torch.device") -> Engine:
    """Wrap a model that is in memory."""
    from recoversat.engines.torch.engine import TorchEngine
    from recoversat.engines.torch.nat import TorchNatEngine
    from recoversat.model.transformer import Transformer

    if not isinstance(model, Transformer):
        return TorchNatEngine(model, device)
    return in_reading_order(TorchEngine(model, device), model.config)
