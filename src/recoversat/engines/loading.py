"""Choose the engine by what a model folder holds; torch is imported only where torch weights are what is used."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from recoversat.config import ModelConfig, check_device
from recoversat.engines.cores import usable_cores
from recoversat.engines.engine import Engine
from recoversat.engines.interleaved import in_reading_order
from recoversat.errors import UserError
from recoversat.files.model_folder import WEIGHTS
from recoversat.files.storage import read_json

if TYPE_CHECKING:
    import torch

    from recoversat.model.build import Model

ComputeType = Literal["default", "int8", "int8_native", "float16", "bfloat16", "float32"]
ONNX, EXPORT = "onnx", "export.json"
NATIVE = "int8_native"  # the engine in C++
_EXPORTED: dict[str, tuple[str, ...]] = {
    "default": ("int8", "fp32"), "int8": ("int8",), NATIVE: ("int8",), "float32": ("fp32",),
}  # fmt: skip
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
            raise UserError(f"compute type {self.compute_type!r} does not exist; there are: {', '.join(known)}")
        check_device(self.device)
        if self.intra_threads < 0 or (self.max_memory is not None and self.max_memory < 1):
            raise UserError("threads and memory are bounded by positive numbers")


def load_engine(folder: Path, config: ModelConfig, options: EngineOptions) -> Engine:
    """Load the exported graphs of a folder, int8 before fp32, or else its torch weights: on a GPU in fp16."""
    names = _EXPORTED.get(options.compute_type, ())
    exported = next((path for name in names if (path := folder / ONNX / name).is_dir()), None)
    weights = (folder / WEIGHTS).is_file()
    on_cpu = options.device in ("auto", "cpu")
    if exported and on_cpu:
        _check_sizes(exported)
        open_engine = _native_engine if options.compute_type == NATIVE else onnx_engine
        return open_engine(exported, config, options.intra_threads or usable_cores(), options.max_memory)
    if exported and not weights:
        raise UserError(f"device {options.device}: {folder} holds ONNX graphs, which run on the CPU; use device cpu")
    if options.compute_type in ("int8", NATIVE):
        raise UserError(f"{folder} holds no int8 weights for this device: recoversat export MODEL OUT --precision int8")
    if (folder / ONNX).is_dir() and not weights:
        there = ", ".join(sorted(path.name for path in (folder / ONNX).iterdir() if path.is_dir()))
        if not there:
            raise UserError(f"{folder}: no exported model here, {ONNX} is empty; export it again")
        raise UserError(f"compute type {options.compute_type}: {folder.name} was exported as {there} only; use that")
    return _load_torch(folder, config, options)


def onnx_engine(folder: Path, config: ModelConfig, threads: int, max_memory: int | None = None) -> Engine:
    """Open the graphs of one precision."""
    from recoversat.engines.onnx.engine import OnnxEngine
    from recoversat.engines.onnx.one_step import OnnxOneStepEngine

    if config.stepwise:
        return in_reading_order(OnnxEngine(folder, config, threads, max_memory), config)
    if max_memory is not None:
        raise UserError(f"{folder}: the memory of a {config.kind!r} model cannot be bounded; leave the bound out")
    return OnnxOneStepEngine(folder, config)


def _native_engine(folder: Path, config: ModelConfig, threads: int, max_memory: int | None = None) -> Engine:
    from recoversat.engines.native.engine import NativeEngine

    if not config.stepwise:
        raise UserError(f"compute type {NATIVE} cannot run a {config.kind!r} model; use int8")
    return in_reading_order(NativeEngine(folder, config, threads, max_memory), config)


def _check_sizes(folder: Path) -> None:
    """Compare files with the sizes that were noted when they were written: a cut off one is not noticed otherwise."""
    notes = folder.parent.parent / EXPORT
    if not notes.is_file():  # graphs that were put beside torch weights
        return
    noted = read_json(notes, "exported model")
    try:
        sizes = dict(noted["precisions"][folder.name]["files"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{notes}: says nothing of {ONNX}/{folder.name}; export the model again") from None
    for name, size in sizes.items():
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != size:
            what = "missing" if found is None else f"{found:,} bytes, not {size:,}"
            raise UserError(f"{folder}: damaged ({name} is {what}); export the model again")


def _load_torch(folder: Path, config: ModelConfig, options: EngineOptions) -> Engine:
    try:
        import torch

        from recoversat.engines.cuda.engine import GraphEngine
        from recoversat.engines.cuda.one_step import GraphOneStepEngine
        from recoversat.model.device import torch_device
        from recoversat.model.transformer import Transformer
        from recoversat.model.weights import load_model
    except ImportError:
        raise UserError(
            f"{folder} holds torch weights: pip install 'recoversat[train]', or export it to ONNX"
        ) from None
    if options.max_memory is not None:
        raise UserError(f"{folder} holds torch weights, whose memory cannot be bounded; run 'recoversat export' first")
    if options.intra_threads:
        torch.set_num_threads(options.intra_threads)
    device, kind = torch_device(options.device), options.compute_type
    if kind in _HALF and device.type != "cuda":
        raise UserError(f"compute type {kind} is for models on a GPU; use float32")
    model, _ = load_model(folder)
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
