"""Weights as ONNX graphs hold them: in fp32, or as int8 with one scale for each output channel.

D model, V vocabulary, P = V rounded up to whole blocks. Needs numpy and onnx, not torch.

int8 was chosen by measuring (512 x 512, one thread, us): DynamicQuantizeLinear + MatMulIntegerToFloat takes
19 for 10 rows and 90 for 64; DynamicQuantizeMatMul 22 and 93; MatMulNBits with 8 bits 43-54 and 336-400, with
4 bits 45-57 and 344-434; fp32 61 and 268. Weights must be signed: unsigned ones take 45 and 299.
Rows get one scale a product, measured before (`calibration.py`): a scale of the rows at hand lets neighbours matter.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Weights = Mapping[str, NDArray[Any]]  # named as in Transformer.state_dict()
Array = NDArray[np.float32]

MICROSOFT = "com.microsoft"
info = helper.make_tensor_value_info  # the name, type and shape of an input or output
BLOCK = 128  # the best token is found block by block: ReduceMax is 6 times as fast as ArgMax
_ALIGNMENT = 64
Range = tuple[float, float]  # the least and the largest value a product has met as input; 0 lies between them
Ranges = Mapping[str, Range]  # by the name of the product


class WeightFile:
    """One file that several graphs share; an array written under the same name is stored once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._places: dict[str, tuple[int, int]] = {}

    def tensor(self, name: str, array: NDArray[Any]) -> Any:
        """Store an array and return the tensor that points at it."""
        if name not in self._places:
            self._stream.write(b"\0" * (-self._stream.tell() % _ALIGNMENT))
            start = self._stream.tell()
            self._stream.write(np.ascontiguousarray(array).tobytes())
            self._places[name] = (start, self._stream.tell() - start)
        offset, length = self._places[name]
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (
            ("location", Path(self._stream.name).name),
            ("offset", str(offset)),
            ("length", str(length)),
        ):
            tensor.external_data.add(key=key, value=value)
        return tensor


@dataclass
class Graph:
    """An ONNX graph while it is being built; values are known by name."""

    file: WeightFile
    prefix: str = ""  # of names in a graph that is a branch of another
    nodes: list[Any] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def input(self, name: str, dtype: int, shape: Sequence[int | str] | None) -> str:
        """Declare an input; a letter stands for a length that may vary, None for any shape."""
        self.inputs.append(info(name, dtype, shape))
        return name

    def output(self, value: str, name: str, dtype: int, shape: Sequence[int | str]) -> None:
        """Make a value an output under a name of its own."""
        for node in self.nodes:  # renamed where it is made: an Identity node would copy it
            node.output[:] = [name if made == value else made for made in node.output]
            node.input[:] = [name if used == value else used for used in node.input]
        self.outputs.append(info(name, dtype, shape))

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """Hold an array in the shared file."""
        if name not in self.tensors:
            self.tensors[name] = self.file.tensor(name, array)
        return name

    def inline(self, name: str, array: NDArray[Any]) -> str:
        """Hold a small array in the graph itself."""
        self.tensors[name] = numpy_helper.from_array(array, name)
        return name

    def constant(self, *numbers: int) -> str:
        """Hold a shape, axes or the like."""
        return self.inline(f"constant_{'_'.join(str(number) for number in numbers)}", np.array(numbers))

    def scalar(self, number: float) -> str:
        """Hold one number that is broadcast."""
        return self.inline(f"scalar_{number!r}", np.array(number, dtype=np.float32))

    def node(
        self, op: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None, domain: str = ""
    ) -> str:
        """Add a node with one output and return the output's name."""
        return self.node_of_many(op, inputs, 1, attributes, domain)[0]

    def node_of_many(
        self, op: str, inputs: Sequence[str], n: int, attributes: Mapping[str, Any] | None = None, domain: str = ""
    ) -> list[str]:
        """Add a node with n outputs and return their names."""
        outputs = [f"{self.prefix}{op}_{len(self.nodes)}_{index}" for index in range(n)]
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **(attributes or {})))
        return outputs

    def proto(self, name: str) -> Any:
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, list(self.tensors.values()))

    def model(self, name: str) -> bytes:
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(self.proto(name), opset_imports=opsets, ir_version=9, producer_name="recoversat")
        return bytes(model.SerializeToString())


def model_like(other: Any, graph: Any) -> Any:
    """Make a model of a graph that was cut out of another model."""
    return helper.make_model(
        graph, opset_imports=list(other.opset_import), ir_version=other.ir_version, producer_name=other.producer_name
    )


Prepared = list[str]  # the names under which the rows go into one or several products


def padded_size(vocab_size: int) -> int:
    """Round the vocabulary up to whole blocks; the places added are never chosen.

    >>> padded_size(32_000), padded_size(40_001)
    (32000, 40064)
    """
    return -(-vocab_size // BLOCK) * BLOCK


def _padded(embedding: Array) -> Array:
    rows = padded_size(len(embedding)) - len(embedding)
    return np.pad(embedding, ((0, rows), (0, 0))).astype(np.float32)


class Fp32:
    """Everything in single precision."""

    def prepare(self, graph: Graph, rows: str, product: str) -> Prepared:
        """Bring rows into the form products take; done once for several, known by the first of them."""
        return [rows]

    def prepare_positive(self, graph: Graph, rows: str, product: str) -> Prepared:
        """Do the same with what ReLU makes of the rows."""
        return [graph.node("Relu", [rows])]

    def product(self, graph: Graph, rows: Prepared, name: str, weight: Array, bias: Array) -> str:
        """Multiply with a weight (in, out) and add the bias."""
        product = graph.node("MatMul", [rows[0], graph.weight(f"{name}.weight", weight)])
        return graph.node("Add", [product, graph.weight(f"{name}.bias", bias)])

    def embed(self, graph: Graph, tokens: str, embedding: Array) -> str:
        """Look up tokens (B, N) -> (B, N, D), times sqrt(D)."""
        rows = graph.node("Gather", [graph.weight("embedding", _padded(embedding)), tokens])
        return graph.node("Mul", [rows, graph.scalar(math.sqrt(embedding.shape[1]))])

    def logits(self, graph: Graph, rows: str, embedding: Array, bias: str) -> str:
        """Multiply rows (N, D) with the same embedding and add the bias (P,)."""
        return graph.node("Gemm", [rows, graph.weight("embedding", _padded(embedding)), bias], {"transB": 1})


class Int8:
    """Products of int8 weights with rows in 8 bits; the rest in single precision.

    Rows are rounded with a scale that was measured before (`ranges`), so that neighbours in a batch do not matter.
    Where none is known, the scale is taken from all rows of the product, as they come.
    """

    def __init__(self, ranges: Ranges | None = None) -> None:
        self._ranges = ranges or {}

    def prepare(self, graph: Graph, rows: str, product: str) -> Prepared:
        if product not in self._ranges:
            return graph.node_of_many("DynamicQuantizeLinear", [rows], 3)  # rows, scale, zero point
        step, zero = steps_of(self._ranges[product])
        scale = graph.inline(f"{product}.step", np.array(step, dtype=np.float32))
        place = graph.inline(f"{product}.zero", np.array(zero, dtype=np.uint8))
        return [graph.node("QuantizeLinear", [rows, scale, place]), scale, place]

    def prepare_positive(self, graph: Graph, rows: str, product: str) -> Prepared:
        if product in self._ranges and self._ranges[product][0] == 0:
            return self.prepare(graph, rows, product)  # 0 is the least of the 256 values: rounding is a ReLU already
        return self.prepare(graph, graph.node("Relu", [rows]), product)

    def product(self, graph: Graph, rows: Prepared, name: str, weight: Array, bias: Array) -> str:
        values, scale = quantise(weight, axis=0)
        values_name, scale_name = graph.weight(f"{name}.weight", values), graph.weight(f"{name}.scale", scale)
        return self._multiply(graph, rows, values_name, scale_name, graph.weight(f"{name}.bias", bias))

    def embed(self, graph: Graph, tokens: str, embedding: Array) -> str:
        values, scale = self._embedding(graph, embedding)
        rows = graph.node("Cast", [graph.node("Gather", [values, tokens])], {"to": TensorProto.FLOAT})
        factor = graph.node("Mul", [graph.node("Gather", [scale, tokens]), graph.scalar(math.sqrt(embedding.shape[1]))])
        return graph.node("Mul", [rows, graph.node("Unsqueeze", [factor, graph.constant(-1)])])

    def logits(self, graph: Graph, rows: str, embedding: Array, bias: str) -> str:
        values, scale = self._embedding(graph, embedding)
        # transposed when the model is loaded, so that the file holds the matrix once
        transposed = graph.node("Transpose", [values], {"perm": [1, 0]})
        return self._multiply(graph, self.prepare(graph, rows, "embedding"), transposed, scale, bias)

    def _embedding(self, graph: Graph, embedding: Array) -> tuple[str, str]:
        values, scale = quantise(_padded(embedding), axis=1)
        return graph.weight("embedding", values), graph.weight("embedding.scale", scale)

    def _multiply(self, graph: Graph, rows: Prepared, values: str, scale: str, bias: str) -> str:
        row_values, row_scale, row_zero = rows
        inputs = [row_values, values, row_scale, scale, row_zero, "", bias]
        return graph.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)


Precision = Fp32 | Int8


def steps_of(seen: Range) -> tuple[float, int]:
    """Cut a range into 255 steps; return the size of one, and which of them is 0.

    >>> steps_of((-50.0, 77.5))
    (0.5, 100)
    """
    low, high = seen
    step = (high - low) / 255 or 1.0
    return step, round(-low / step)


def quantise(weight: Array, axis: int) -> tuple[NDArray[np.int8], Array]:
    """Round to -127..127, with one scale for each line along `axis`.

    >>> quantise(np.array([[1.0, -0.5], [0.5, 0.5]], dtype=np.float32), axis=0)[0].tolist()
    [[127, -127], [64, 127]]
    """
    scale = np.abs(weight).max(axis=axis, keepdims=True) / 127
    scale = np.where(scale == 0, 1, scale).astype(np.float32)
    return np.round(weight / scale).astype(np.int8), scale.squeeze(axis)
