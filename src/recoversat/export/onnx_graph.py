"""The two ONNX graphs of a model, built node by node: encode a source, and take one decoding step.

B sentences, S source, W rows of a sentence in this step, N rows that are real, M places of the cache,
D model, L decoder layers, H heads, E = D / H, P padded vocabulary. Needs numpy and onnx, not torch.

A step takes only the segments that are still being written, packed to the left: W is the largest number of
them in any sentence. Their keys and values go to the first free places of the cache, so that what may be
seen is a length for each sentence and never a mask with holes. To score a given target all its rows go through at
once; only then do they differ in what they see, and a mask takes the place of the lengths.

Graphs hold no weights: they name them as int8.safetensors does, and `tensors` says where each one is. Fused operators
were taken where they pay (10 rows, one thread): LayerNormalization and Add take 8 us where SkipLayerNormalization takes
33; MultiHeadAttention takes keys and values as they are in the cache. Of int8 products, QuantizeLinear and
MatMulIntegerToFloat take 19 us (512 x 512), MatMulNBits 43, fp32 61.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from recoversat.config import ModelConfig
from recoversat.files.int8 import BLOCK, padded_size

INT64, INT32, FLOAT, BOOL = TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.BOOL
_MICROSOFT = "com.microsoft"

# Added to the score of a place that may not be seen. -50, which keeps exp() away from denormal numbers, was no
# faster in a decode and let a sharp model see padding: its scores differ by more than that.
HIDDEN = -10_000.0

Tensors = Mapping[str, Any]  # of ONNX, which say where weights are, by name


def encoder_graph(tensors: Tensors, config: ModelConfig) -> bytes:
    """Build tokens (B, S) -> keys and values of every decoder layer's attention to the source, (2L, B, H, S, E)."""
    graph = _Graph(tensors, config)
    tokens = graph.input("tokens", INT64, ["B", "S"])
    positions = graph.input("positions", FLOAT, [1, "S", config.d_model])
    lengths = graph.input("lengths", INT32, ["B"])
    x = graph.node("Add", [graph.embed(tokens), positions])
    for index in range(config.encoder_layers):
        layer = f"encoder.layers.{index}"
        query, key, value = graph.query_key_value(layer, x)
        x = graph.add(x, f"{layer}.self_attention.output", graph.attend(query, key, value, lengths))
        x = graph.feed_forward(layer, x)
    hidden = graph.norm("encoder.norm", x)
    heads = graph.constant(0, 0, -1, config.n_heads, config.d_model // config.n_heads)
    projected = graph.node("Reshape", [graph.linear(hidden, "memory"), heads])  # (B, S, 2L, H, E)
    memory = graph.node("Transpose", [projected], {"perm": [2, 0, 3, 1, 4]})
    graph.output(memory, "memory", FLOAT, [2 * config.decoder_layers, *graph.cache_shape("S")])
    if "length.weight" in tensors:
        graph.output(_length_logits(graph, hidden, lengths), "length_logits", FLOAT, ["B", "C"])
    return graph.model("encoder")


def _length_logits(graph: "_Graph", hidden: str, lengths: str) -> str:
    """Predict the length of a target from the mean of its source (B, S, D), as NAT and CMLM do, in fp32."""
    width = graph.node("Squeeze", [graph.node("Shape", [hidden], {"start": 1, "end": 2})])
    places = graph.node("Range", [graph.inline("zero", np.array(0)), width, graph.inline("one", np.array(1))])  # (S,)
    counts = graph.node("Cast", [graph.node("Unsqueeze", [lengths, graph.constant(1, 2)])], {"to": INT64})  # (B, 1, 1)
    real = graph.node("Less", [places, counts])  # (B, 1, S)
    share = graph.node("Div", [graph.node("Cast", [one], {"to": FLOAT}) for one in (real, counts)])
    mean = graph.node("Squeeze", [graph.node("MatMul", [share, hidden]), graph.constant(1)])  # (B, D)
    weights = [graph.weight(f"length.{what}") for what in ("weight", "bias")]
    return graph.node("Gemm", [mean, *weights], {"transB": 1})  # (B, C)


def step_graph(tensors: Tensors, config: ModelConfig) -> bytes:
    """Build one step: rows in, chosen tokens out, caches written in place.

    `rows` names the real ones among the B * W rows; only they are scored. `wanted` is -1 where the model chooses.
    `bias` holds -inf for tokens that must not be chosen. Where `scored` is true, log-probabilities of what was
    chosen and the n best come out as well; else these outputs are empty. Bind each key_i and value_i to new_key_i and
    new_value_i as well: ScatterND then writes into the cache and copies nothing.
    """
    graph = _Graph(tensors, config)
    tokens = graph.input("tokens", INT64, ["B", "W"])
    segments = graph.input("segments", INT64, ["B", "W"])
    position = graph.input("position", FLOAT, ["A", "V", config.d_model])  # (1, 1, D), or (B, W, D) where steps differ
    places = graph.input("places", INT64, ["B", "W", config.n_heads, 3])
    lengths = graph.input("lengths", INT32, None)  # (B,), or (B, W, M): 1 where a row is seen
    memory_lengths = graph.input("memory_lengths", INT32, ["B"])
    rows = graph.input("rows", INT64, ["N"])
    if config.stepwise:  # rows of other models belong to no segment
        position = graph.node("Add", [graph.node("Gather", [graph.weight("segment_embedding"), segments]), position])
    x = graph.node("Add", [graph.embed(tokens), position])  # (B, W, D)
    for index in range(config.decoder_layers):
        layer = f"decoder.layers.{index}"
        query, *new = graph.query_key_value(layer, x)
        key, value = (
            graph.write_cache(f"{what}_{index}", row, places) for what, row in zip(("key", "value"), new, strict=True)
        )
        x = graph.add(x, f"{layer}.self_attention.output", graph.attend(query, key, value, lengths))
        query = graph.linear(graph.norm(f"{layer}.cross_norm", x), f"{layer}.cross_attention.query")
        key, value = (graph.input(f"memory_{what}_{index}", FLOAT, graph.cache_shape("S")) for what in ("key", "value"))
        x = graph.add(x, f"{layer}.cross_attention.output", graph.attend(query, key, value, memory_lengths))
        x = graph.feed_forward(layer, x)
    flat = graph.node("Reshape", [x, graph.constant(-1, config.d_model)])
    _choose(graph, graph.norm("decoder.norm", graph.node("Gather", [flat, rows])))
    return graph.model("step")


def probe_graph() -> bytes:
    """Build a product of the largest int8 values; processors that add in 16 bits get it wrong (see `saturates`)."""
    graph = _Graph({}, ModelConfig())
    rows = graph.input("rows", TensorProto.UINT8, ["N", 64])
    weight = graph.inline("weight", np.full((64, 64), 127, dtype=np.int8))
    one = graph.inline("one", np.array(1, dtype=np.float32))
    graph.output(graph.node("MatMulIntegerToFloat", [rows, weight, one, one], {}, _MICROSOFT), "sums", FLOAT, ["N", 64])
    return graph.model("probe")


def _choose(graph: "_Graph", hidden: str) -> None:
    """Put out the best token of each row (N, D), or the one that is wanted."""
    bias = graph.input("bias", FLOAT, [padded_size(graph.config.vocab_size or 0)])
    wanted = graph.input("wanted", INT64, ["N", 1])
    logits = graph.logits(hidden, bias)  # (N, P)
    # block by block: ReduceMax is 6 times as fast as ArgMax
    blocks = graph.node("Reshape", [logits, graph.constant(0, -1, BLOCK)])
    peaks = graph.node("ReduceMax", [blocks, graph.constant(-1)], {"keepdims": 0})  # (N, P / BLOCK)
    block = graph.node("ArgMax", [peaks], {"axis": -1, "keepdims": 1})  # (N, 1)
    inside = graph.node(
        "ArgMax", [graph.node("GatherND", [blocks, block], {"batch_dims": 1})], {"axis": -1, "keepdims": 1}
    )
    best = graph.node("Add", [graph.node("Mul", [block, graph.constant(BLOCK)]), inside])
    chosen = graph.node("Where", [graph.node("Less", [wanted, graph.constant(0)]), best, wanted])
    graph.output(chosen, "chosen", INT64, ["N", 1])
    _score(graph, logits)


def _score(graph: "_Graph", logits: str) -> None:
    """Put out log-probabilities where they are asked for: at 10 rows they take 8 % of a step, at 160 rows 20 %."""
    scored, n_best = graph.input("scored", BOOL, [1]), graph.input("n_best", INT64, [1])
    types = {"log_probs": FLOAT, "best_log_probs": FLOAT, "best_tokens": INT64}
    yes, no = (_Graph({}, graph.config, prefix=prefix) for prefix in ("scored_", "unscored_"))
    log_probs = yes.node("LogSoftmax", [logits], {"axis": -1})
    found = [
        yes.node("GatherElements", [log_probs, "chosen"], {"axis": 1}),
        *yes.node_of_many("TopK", [log_probs, n_best], 2, {"axis": -1}),
    ]
    for (name, dtype), value in zip(types.items(), found, strict=True):
        yes.output(value, f"scored_{name}", dtype, ["N", "n"])
        nothing = helper.make_tensor(f"no_{name}", dtype, [0, 0], [])
        no.output(no.node("Constant", [], {"value": nothing}), f"unscored_{name}", dtype, ["N", "n"])
    branches = {"then_branch": yes.proto("scored"), "else_branch": no.proto("unscored")}
    outputs = graph.node_of_many("If", [scored], len(types), branches)
    for (name, dtype), value in zip(types.items(), outputs, strict=True):
        graph.output(value, name, dtype, [f"{name}_N", f"{name}_n"])


@dataclass
class _Graph:
    """An ONNX graph while it is being built, and the parts of a Transformer; values are known by name."""

    tensors: Tensors
    config: ModelConfig
    prefix: str = ""  # of names in a graph that is a branch of another
    nodes: list[Any] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    @property
    def is_int8(self) -> bool:
        return "embedding.scale" in self.tensors

    def input(self, name: str, dtype: int, shape: Sequence[int | str] | None) -> str:
        """Declare an input; a letter stands for a length that may vary, None for any shape."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value: str, name: str, dtype: int, shape: Sequence[int | str]) -> None:
        """Make a value an output under a name of its own."""
        for node in self.nodes:  # renamed where it is made: an Identity node would copy it
            node.output[:] = [name if made == value else made for made in node.output]
            node.input[:] = [name if used == value else used for used in node.input]
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def weight(self, name: str) -> str:
        self.held[name] = self.tensors[name]
        return name

    def inline(self, name: str, array: NDArray[Any]) -> str:
        """Hold a small array in the graph itself."""
        self.held[name] = numpy_helper.from_array(array, name)
        return name

    def constant(self, *numbers: int) -> str:
        """Hold a shape, axes or the like."""
        return self.inline(f"constant_{'_'.join(str(number) for number in numbers)}", np.array(numbers))

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
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, list(self.held.values()))

    def model(self, name: str) -> bytes:
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(self.proto(name), opset_imports=opsets, ir_version=9, producer_name="recoversat")
        return bytes(model.SerializeToString())

    def cache_shape(self, length: str) -> list[int | str]:
        return ["B", self.config.n_heads, length, self.config.d_model // self.config.n_heads]

    def embed(self, tokens: str) -> str:
        """Look up tokens (B, N) -> (B, N, D), times sqrt(D)."""
        rows = self.node("Gather", [self.weight("embedding.weight"), tokens])
        factor = self.inline("embedding_factor", np.array(math.sqrt(self.config.d_model), dtype=np.float32))
        if self.is_int8:
            rows = self.node("Cast", [rows], {"to": FLOAT})
            scale = self.node("Gather", [self.weight("embedding.scale"), tokens])
            factor = self.node("Unsqueeze", [self.node("Mul", [scale, factor]), self.constant(-1)])
        return self.node("Mul", [rows, factor])

    def linear(self, x: str, name: str, relu: bool = False) -> str:
        """Multiply with a weight (in, out) and add the bias; `relu`: of what is positive."""
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        if self.is_int8:  # rounding with 0 as the least of the 256 values is a ReLU
            return self._multiply(x, name, weight, bias)
        product = self.node("MatMul", [self.node("Relu", [x]) if relu else x, weight])
        return self.node("Add", [product, bias])

    def logits(self, rows: str, bias: str) -> str:
        """Multiply rows (N, D) with the embedding and add the bias (P,)."""
        embedding = self.weight("embedding.weight")
        if not self.is_int8:
            return self.node("Gemm", [rows, embedding, bias], {"transB": 1})
        transposed = self.node("Transpose", [embedding], {"perm": [1, 0]})  # once, when the model is loaded
        return self._multiply(rows, "embedding", transposed, bias)

    def _multiply(self, x: str, name: str, weight: str, bias: str) -> str:
        step, zero, scale = (self.weight(f"{name}.{what}") for what in ("step", "zero", "scale"))
        rows = self.node("QuantizeLinear", [x, step, zero])
        return self.node("MatMulIntegerToFloat", [rows, weight, step, scale, zero, "", bias], domain=_MICROSOFT)

    def norm(self, name: str, x: str) -> str:
        scale, bias = (self.weight(f"{name}.{what}") for what in ("weight", "bias"))
        return self.node("LayerNormalization", [x, scale, bias], {"axis": -1, "epsilon": 1e-5})

    def query_key_value(self, layer: str, x: str) -> list[str]:
        joined = self.linear(self.norm(f"{layer}.attention_norm", x), f"{layer}.self_attention.qkv")
        return self.node_of_many("Split", [joined], 3, {"axis": -1, "num_outputs": 3})

    def write_cache(self, name: str, rows: str, places: str) -> str:
        """Write new rows to their places and return the name of the whole cache."""
        old = self.input(name, FLOAT, self.cache_shape("M"))
        heads = self.constant(0, 0, self.config.n_heads, self.config.d_model // self.config.n_heads)
        new = self.node("ScatterND", [old, places, self.node("Reshape", [rows, heads])])  # (B, W, H, E)
        self.output(new, f"new_{name}", FLOAT, self.cache_shape("M"))
        return f"new_{name}"

    def attend(self, query: str, key: str, value: str, lengths: str) -> str:
        attributes = {"num_heads": self.config.n_heads, "mask_filter_value": HIDDEN}
        return self.node("MultiHeadAttention", [query, key, value, "", lengths], attributes, _MICROSOFT)

    def add(self, x: str, name: str, y: str) -> str:
        return self.node("Add", [x, self.linear(y, name)])

    def feed_forward(self, layer: str, x: str) -> str:
        inner = self.linear(self.norm(f"{layer}.feed_forward_norm", x), f"{layer}.feed_forward.inner")
        return self.node("Add", [x, self.linear(inner, f"{layer}.feed_forward.outer", relu=True)])
