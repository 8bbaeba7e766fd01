"""The two ONNX graphs of a model, built node by node: encode a source, and take one decoding step.

B sentences, S source, W rows of a sentence in this step, N rows that are real, M places of the cache,
D model, L decoder layers, H heads, E = D / H, P padded vocabulary. Needs numpy and onnx, not torch.

A step takes only the segments that are still being written, packed to the left: W is the largest number of
them in any sentence. Their keys and values go to the first free places of the cache, so that what may be
seen is a length for each sentence and never a mask with holes. To score a given target all its rows go through at
once; only then do they differ in what they see, and a mask takes the place of the lengths.

Fused operators were taken where they pay (10 rows, one thread): LayerNormalization and Add take 8 us where
SkipLayerNormalization takes 33; MultiHeadAttention takes keys and values as they lie in the cache.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from recoversat.config import ModelConfig
from recoversat.export.onnx_weights import (
    BLOCK,
    MICROSOFT,
    Array,
    Graph,
    Precision,
    Prepared,
    WeightFile,
    Weights,
    padded_size,
)

INT64, INT32, FLOAT, BOOL = TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.BOOL

# Added to the score of a place that may not be seen. -50, which keeps exp() away from denormal numbers, was no
# faster in a decode and let a sharp model see padding: its scores differ by more than that.
HIDDEN = -10_000.0


def encoder_graph(weights: Weights, config: ModelConfig, precision: Precision, file: WeightFile) -> bytes:
    """Build tokens (B, S) -> keys and values of every decoder layer's attention to the source, (2L, B, H, S, E)."""
    model = _Builder(Graph(file), weights, config, precision)
    graph = model.graph
    tokens = graph.input("tokens", INT64, ["B", "S"])
    positions = graph.input("positions", FLOAT, [1, "S", config.d_model])
    lengths = graph.input("lengths", INT32, ["B"])
    x = graph.node("Add", [model.embed(tokens), positions])
    for index in range(config.encoder_layers):
        layer = f"encoder.layers.{index}"
        query, key, value = model.query_key_value(layer, x)
        x = model.add(x, f"{layer}.self_attention.output", model.attend(query, key, value, lengths))
        x = model.feed_forward(layer, x)
    hidden = model.norm("encoder.norm", x)
    projected = model.memory(hidden)  # (B, S, 2L, H, E)
    memory = graph.node("Transpose", [projected], {"perm": [2, 0, 3, 1, 4]})
    graph.output(memory, "memory", FLOAT, [2 * config.decoder_layers, *model.cache_shape("S")])
    if "length.weight" in weights:
        graph.output(_length_logits(model, hidden, lengths), "length_logits", FLOAT, ["B", "C"])
    return graph.model("encoder")


def _length_logits(model: "_Builder", hidden: str, lengths: str) -> str:
    """Predict the length of a target from the mean of its source (B, S, D), as NAT and CMLM do, in fp32."""
    graph = model.graph
    width = graph.node("Squeeze", [graph.node("Shape", [hidden], {"start": 1, "end": 2})])
    places = graph.node("Range", [graph.inline("zero", np.array(0)), width, graph.inline("one", np.array(1))])  # (S,)
    counts = graph.node("Cast", [graph.node("Unsqueeze", [lengths, graph.constant(1, 2)])], {"to": INT64})  # (B, 1, 1)
    real = graph.node("Less", [places, counts])  # (B, 1, S)
    share = graph.node("Div", [graph.node("Cast", [one], {"to": FLOAT}) for one in (real, counts)])
    mean = graph.node("Squeeze", [graph.node("MatMul", [share, hidden]), graph.constant(1)])  # (B, D)
    weight = graph.weight("length.weight", np.ascontiguousarray(model.array("length.weight").T))
    bias = graph.weight("length.bias", model.array("length.bias"))
    return graph.node("Add", [graph.node("MatMul", [mean, weight]), bias])  # (B, C)


def step_graph(weights: Weights, config: ModelConfig, precision: Precision, file: WeightFile) -> bytes:
    """Build one step: rows in, chosen tokens out, caches written in place.

    `rows` names the real ones among the B * W rows; only they are scored. `wanted` is -1 where the model chooses.
    `bias` holds -inf for tokens that must not be chosen. Where `scored` is true, log-probabilities of what was
    chosen and the n best come out as well; else these outputs are empty. Bind each key_i and value_i to new_key_i and
    new_value_i as well: ScatterND then writes into the cache and copies nothing.
    """
    model = _Builder(Graph(file), weights, config, precision)
    graph = model.graph
    tokens = graph.input("tokens", INT64, ["B", "W"])
    segments = graph.input("segments", INT64, ["B", "W"])
    position = graph.input("position", FLOAT, ["A", "V", config.d_model])  # (1, 1, D), or (B, W, D) where steps differ
    places = graph.input("places", INT64, ["B", "W", config.n_heads, 3])
    lengths = graph.input("lengths", INT32, None)  # (B,), or (B, W, M): 1 where a row is seen
    memory_lengths = graph.input("memory_lengths", INT32, ["B"])
    rows = graph.input("rows", INT64, ["N"])
    x = model.embed_rows(tokens, segments, position)  # (B, W, D)
    for index in range(config.decoder_layers):
        layer = f"decoder.layers.{index}"
        query, *new = model.query_key_value(layer, x)
        key, value = (
            model.write_cache(what, index, row, places) for what, row in zip(("key", "value"), new, strict=True)
        )
        x = model.add(x, f"{layer}.self_attention.output", model.attend(query, key, value, lengths))
        query = model.product(model.norm(f"{layer}.cross_norm", x), f"{layer}.cross_attention.query")
        key, value = (
            graph.input(f"{what}_{index}", FLOAT, model.cache_shape("S")) for what in ("memory_key", "memory_value")
        )
        x = model.add(x, f"{layer}.cross_attention.output", model.attend(query, key, value, memory_lengths))
        x = model.feed_forward(layer, x)
    flat = graph.node("Reshape", [x, graph.constant(-1, config.d_model)])
    _choose(model, model.norm("decoder.norm", graph.node("Gather", [flat, rows])))
    return graph.model("step")


def probe_graph(file: WeightFile) -> bytes:
    """Build a product of the largest int8 values; processors that add in 16 bits get it wrong (see OnnxEngine)."""
    graph = Graph(file)
    rows = graph.input("rows", TensorProto.UINT8, ["N", 64])
    weight = graph.inline("weight", np.full((64, 64), 127, dtype=np.int8))
    product = graph.node("MatMulIntegerToFloat", [rows, weight, graph.scalar(1.0), graph.scalar(1.0)], {}, MICROSOFT)
    graph.output(product, "sums", FLOAT, ["N", 64])
    return graph.model("probe")


def _choose(model: "_Builder", hidden: str) -> None:
    """Put out the best token of each row (N, D), or the one that is wanted."""
    graph = model.graph
    bias = graph.input("bias", FLOAT, [padded_size(model.vocab_size)])
    wanted = graph.input("wanted", INT64, ["N", 1])
    logits = model.precision.logits(graph, hidden, model.array("embedding.weight"), bias)  # (N, P)
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


def _score(graph: Graph, logits: str) -> None:
    """Put out log-probabilities where they are asked for: at 10 rows they take 8 % of a step, at 160 rows 20 %."""
    scored, n_best = graph.input("scored", BOOL, [1]), graph.input("n_best", INT64, [1])
    types = {"log_probs": FLOAT, "best_log_probs": FLOAT, "best_tokens": INT64}
    yes, no = Graph(graph.file, prefix="scored_"), Graph(graph.file, prefix="unscored_")
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
class _Builder:
    """The parts of a Transformer as nodes of a graph."""

    graph: Graph
    weights: Weights
    config: ModelConfig
    precision: Precision

    @property
    def vocab_size(self) -> int:
        return len(self.weights["embedding.weight"])

    def array(self, name: str) -> Array:
        return np.asarray(self.weights[name], dtype=np.float32)

    def cache_shape(self, length: str) -> list[int | str]:
        return ["B", self.config.n_heads, length, self.config.d_model // self.config.n_heads]

    def embed(self, tokens: str) -> str:
        return self.precision.embed(self.graph, tokens, self.array("embedding.weight"))

    def embed_rows(self, tokens: str, segments: str, position: str) -> str:
        table = self.graph.weight("segment_embedding", self.array("segment_embedding.weight"))
        place = self.graph.node("Add", [self.graph.node("Gather", [table, segments]), position])
        return self.graph.node("Add", [self.embed(tokens), place])

    def norm(self, name: str, x: str) -> str:
        scale, bias = (self.graph.weight(f"{name}.{what}", self.array(f"{name}.{what}")) for what in ("weight", "bias"))
        return self.graph.node("LayerNormalization", [x, scale, bias], {"axis": -1, "epsilon": 1e-5})

    def prepare(self, x: str, product: str) -> Prepared:
        return self.precision.prepare(self.graph, x, product)

    def product(self, x: str, name: str) -> str:
        return self.part(self.prepare(x, name), name, 0, 1)

    def part(self, x: Prepared, name: str, index: int, of: int) -> str:
        """Multiply with one of several weights that torch keeps stacked; nothing has to be split afterwards."""
        weight, bias = (np.split(self.array(f"{name}.{what}"), of)[index] for what in ("weight", "bias"))
        return self.precision.product(self.graph, x, f"{name}.{index}", np.ascontiguousarray(weight.T), bias)

    def memory(self, x: str) -> str:
        """Multiply with the source's keys and values of all decoder layers at once: one node for 2L."""
        names = [f"decoder.layers.{index}.cross_attention.key_value" for index in range(self.config.decoder_layers)]
        weight, bias = (np.concatenate([self.array(f"{name}.{what}") for name in names]) for what in ("weight", "bias"))
        rows = self.prepare(x, names[0])
        product = self.precision.product(self.graph, rows, "memory", np.ascontiguousarray(weight.T), bias)
        heads = self.config.n_heads
        return self.graph.node("Reshape", [product, self.graph.constant(0, 0, -1, heads, self.config.d_model // heads)])

    def query_key_value(self, layer: str, x: str) -> list[str]:
        name = f"{layer}.self_attention.qkv"
        rows = self.prepare(self.norm(f"{layer}.attention_norm", x), name)
        return [self.part(rows, name, index, 3) for index in range(3)]

    def split_heads(self, x: str) -> str:
        heads = self.config.n_heads
        shape = self.graph.constant(0, 0, heads, self.config.d_model // heads)
        return self.graph.node("Reshape", [x, shape])  # (B, W, H, E)

    def write_cache(self, what: str, index: int, rows: str, places: str) -> str:
        """Write new rows to their places and return the name of the whole cache."""
        old = self.graph.input(f"{what}_{index}", FLOAT, self.cache_shape("M"))
        new = self.graph.node("ScatterND", [old, places, self.split_heads(rows)])
        self.graph.output(new, f"new_{what}_{index}", FLOAT, self.cache_shape("M"))
        return f"new_{what}_{index}"

    def attend(self, query: str, key: str, value: str, lengths: str) -> str:
        attributes = {"num_heads": self.config.n_heads, "mask_filter_value": HIDDEN}
        inputs = [query, key, value, "", lengths]
        return self.graph.node("MultiHeadAttention", inputs, attributes, MICROSOFT)

    def add(self, x: str, name: str, y: str) -> str:
        return self.graph.node("Add", [x, self.product(y, name)])

    def feed_forward(self, layer: str, x: str) -> str:
        inner = self.product(self.norm(f"{layer}.feed_forward_norm", x), f"{layer}.feed_forward.inner")
        outer = f"{layer}.feed_forward.outer"
        rows = self.precision.prepare_positive(self.graph, inner, outer)
        return self.graph.node("Add", [x, self.part(rows, outer, 0, 1)])
