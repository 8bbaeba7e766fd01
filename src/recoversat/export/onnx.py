"""Write the ONNX graphs of a model; needs numpy and onnx, not torch.

onnx/fp32/encoder.onnx  step.onnx  weights.bin
onnx/int8/encoder.onnx  step.onnx  probe.onnx     their weights are those of int8.safetensors
"""

from pathlib import Path

from onnx import TensorProto

from recoversat.config import ModelConfig
from recoversat.export.int8 import matrices
from recoversat.export.onnx_graph import Tensors, encoder_graph, probe_graph, step_graph
from recoversat.files.int8 import Arrays, plain_forms
from recoversat.files.storage import atomic_folder

WEIGHTS = "weights.bin"
_GIVEN = "given by recoversat: int8.safetensors, unpacked"  # no file: who loads the graph alone gets an error
_TYPES = {"F32": TensorProto.FLOAT, "I8": TensorProto.INT8, "U8": TensorProto.UINT8}
_ALIGNMENT = 64


def export_int8(config: ModelConfig, out: Path) -> Path:
    """Write int8 graphs below `out`, which are used beside an int8.safetensors."""
    tensors = {
        name: _tensor(name, _TYPES[dtype], shape, location=_GIVEN)
        for name, (dtype, shape) in plain_forms(config).items()
    }
    with atomic_folder(out / "int8", replace=True) as scratch:
        _write(scratch, tensors, config)
        (scratch / "probe.onnx").write_bytes(probe_graph())
    return out / "int8"


def export_fp32(weights: Arrays, config: ModelConfig, out: Path) -> Path:
    """Write fp32 graphs below `out`, and their weights."""
    tensors = {}
    with atomic_folder(out / "fp32", replace=True) as scratch, open(scratch / WEIGHTS, "wb") as stream:
        for name, array in matrices(weights, config).items():
            start, size = stream.tell(), array.nbytes
            tensors[name] = _tensor(name, TensorProto.FLOAT, array.shape, location=WEIGHTS, offset=start, length=size)
            stream.write(array.tobytes() + b"\0" * (-array.nbytes % _ALIGNMENT))
        _write(scratch, tensors, config)
    return out / "fp32"


def _write(folder: Path, tensors: Tensors, config: ModelConfig) -> None:
    (folder / "encoder.onnx").write_bytes(encoder_graph(tensors, config))
    (folder / "step.onnx").write_bytes(step_graph(tensors, config))


def _tensor(name: str, dtype: int, shape: tuple[int, ...], **place: str | int) -> TensorProto:
    tensor = TensorProto(name=name, dims=shape, data_type=dtype, data_location=TensorProto.EXTERNAL)
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor
