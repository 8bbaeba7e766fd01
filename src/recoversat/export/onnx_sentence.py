"""Put the whole of a sentence into one graph: its encoder, and a loop over the step graph.

    sentence.onnx         tokens (1, S) -> what each segment has got in each step (T, 1, K)
    sentence_listed.onnx  the same with a shortlist

Made of encoder.onnx and step.onnx (or step_listed.onnx) alone, whose nodes it holds: what comes out is what steps give
that are taken one by one. It spares what lies between two runs, for which a small model pays nearly as much as for
them. One sentence needs less: every row of its cache is its own, so that new rows are put behind the others; nothing
is forced, and no row is padding. Attention is still told lengths, for without them it computes in another way, and
what differs in the last digit may be rounded to another of 256 values.

S source, K segments, N of them that write in a step, T steps, R rows of all steps, M rows so far, L pieces to choose
from, D model.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from recoversat.export.onnx_weights import info, model_like
from recoversat.vocab import N_SPECIAL

_FLOAT, _INT64, _INT32, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
# inputs of the step graph that are the same in every step: the sentence has them too
_CONSTANT = ("bias", "scored", "n_best", "listed", "list_weight", "list_bias", "list_scale")
_NUMBERS = {
    "axis_0": [0], "row_1": [1], "as_row": [1, -1], "as_list": [-1], "no_segment": 0, "largest_special": N_SPECIAL - 1
}  # fmt: skip

Shape = list[int | str]


def sentence_graph(folder: Path, step_name: str = "step.onnx") -> bytes:
    """Build it of the graphs in a folder."""
    encoder, step = (onnx.load_model(folder / name, load_external_data=False) for name in ("encoder.onnx", step_name))
    given = {value.name: value for value in step.graph.input}
    d_model = given["position"].type.tensor_type.shape.dim[2].dim_value
    caches = [name for name in given if name.startswith(("key_", "value_"))]
    rows: dict[str, Shape] = {"log_probs": ["R"]}  # what is put together from all steps
    if "hidden" in (value.name for value in step.graph.output):
        rows["hidden"] = ["R", d_model]
    grown = rows | {name: [1, "M", d_model] for name in caches}
    numbers = _NUMBERS | {f"size_of_no_{name}": _sizes(shape, 0) for name, shape in grown.items()}
    first = [f"no_{name}" for name in grown]
    last = [f"all_{name}" for name in grown]
    nodes = [
        *_encoder_nodes(encoder.graph, [f"memory_{name}" for name in caches]),
        *(_node("ConstantOfShape", [f"size_of_no_{name}"], f"no_{name}") for name in grown),
        helper.make_node(
            "Loop",
            ["", "", "first_tokens", "first_segments", *first],
            ["last_tokens", "last_segments", *last, "all_chosen"],
            body=_body(step.graph, rows, grown),
        ),
    ]
    tensors = {tensor.name: tensor for model in (encoder, step) for tensor in model.graph.initializer}
    tensors |= {name: numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()}
    inputs = [
        info("tokens", _INT64, [1, "S"]),
        info("positions", _FLOAT, [1, "S", d_model]),
        given["memory_lengths"],
        info("step_positions", _FLOAT, ["P", d_model]),
        info("first_tokens", _INT64, [1, "K"]),
        info("first_segments", _INT64, [1, "K"]),
        info("nothing", _INT64, [1, "K"]),  # PAD for each segment
        info("last_steps", _INT64, [1, "K"]),  # of each segment, counted from 0
        *(given[name] for name in _CONSTANT if name in given),
        *([info("pieces", _INT64, ["L"])] if "hidden" in rows else []),  # ids of what is chosen from
    ]
    outputs = [info("all_chosen", _INT64, ["T", 1, "K"])]
    outputs += [info(f"all_{name}", _FLOAT, shape) for name, shape in rows.items()]
    graph = helper.make_graph(nodes, "sentence", inputs, outputs, list(tensors.values()))
    model = model_like(step, graph)
    heads = given["places"].type.tensor_type.shape.dim[2].dim_value
    sizes = {"decoder_layers": len(caches) // 2, "d_model": d_model, "n_heads": heads}
    helper.set_model_props(model, {name: str(size) for name, size in sizes.items()})
    return bytes(model.SerializeToString())


def _encoder_nodes(encoder: Any, names: Sequence[str]) -> Iterator[Any]:
    """Give the encoder's nodes, and cut what they make into keys and values of each decoder layer."""
    known = {"": "", "tokens": "tokens", "positions": "positions", "lengths": "memory_lengths"}
    known |= {tensor.name: tensor.name for tensor in encoder.initializer}
    for node in encoder.node:
        yield _renamed(node, lambda name: known.get(name, f"encoder_{name}"))
    parts = [f"{name}_part" for name in names]
    yield helper.make_node("Split", ["encoder_memory"], parts, axis=0, num_outputs=len(parts))
    yield from (_node("Squeeze", [part, "axis_0"], name) for part, name in zip(parts, names, strict=True))


def _body(step: Any, rows: dict[str, Shape], grown: dict[str, Shape]) -> Any:
    """Build one turn of the loop: the step, what it has chosen, and who goes on."""
    nodes = [
        _node("Gather", ["step_positions", "iteration"], "position"),  # (D,)
        *_step_nodes(step),
        *([_node("Gather", ["pieces", "chosen"], "chosen_ids")] if "hidden" in rows else []),  # a list has places
        _node("Reshape", ["chosen_ids" if "hidden" in rows else "chosen", "as_row"], "chosen_row"),  # (1, N)
        _node("ScatterElements", ["nothing", "segments", "chosen_row"], "noted", axis=1),  # (1, K)
        # special are only EOS, DEL, and PAD of those that have ended before
        _node("Greater", ["noted", "largest_special"], "is_word"),
        _node("Less", ["iteration", "last_steps"], "has_time"),
        _node("And", ["is_word", "has_time"], "is_open"),
        _node("NonZero", ["is_open"], "open_places"),  # (2, N)
        _node("Gather", ["open_places", "row_1"], "new_segments"),  # (1, N)
        _node("GatherElements", ["noted", "new_segments"], "new_tokens", axis=1),
        _node("Size", ["new_tokens"], "n_open"),
        _node("Greater", ["n_open", "no_segment"], "goes_on"),
        _node("Reshape", ["log_probs", "as_list"], "log_probs_list"),
        _node("Concat", ["past_log_probs", "log_probs_list"], "new_log_probs", axis=0),
        *(_node("Concat", [f"past_{name}", name], f"new_{name}", axis=0) for name in rows if name != "log_probs"),
    ]
    inputs = [info("iteration", _INT64, []), info("went_on", _BOOL, [])]
    inputs += [info("step_tokens", _INT64, [1, "N"]), info("segments", _INT64, [1, "N"])]
    inputs += [info(f"past_{name}", _FLOAT, shape) for name, shape in grown.items()]
    outputs = [info("goes_on", _BOOL, []), info("new_tokens", _INT64, [1, "O"])]
    outputs += [info("new_segments", _INT64, [1, "O"])]
    outputs += [info(f"new_{name}", _FLOAT, _sizes(shape, "more")) for name, shape in grown.items()]
    return helper.make_graph(nodes, "step", inputs, [*outputs, info("noted", _INT64, [1, "K"])])


def _step_nodes(step: Any) -> Iterator[Any]:
    """Give the step's nodes; tokens that are wanted and rows that are none are left out."""
    makers = {name: node for node in step.node for name in node.output}
    choice = makers["chosen"]  # Where(wanted < 0, best, wanted)
    [real] = [node for node in step.node if node.op_type == "Gather" and node.input[1] == "rows"]
    dropped = {"chosen", choice.input[0], real.output[0]}
    dropped |= {node.input[2] for node in step.node if node.op_type == "ScatterND"}  # rows in the layout of the cache
    renamed = {"tokens": "step_tokens", choice.input[1]: "chosen", real.output[0]: real.input[0]}
    for node in step.node:
        if node.op_type == "ScatterND":
            cache, _, split = node.input
            yield _node("Concat", [f"past_{cache}", makers[split].input[0]], node.output[0], axis=1)
            if cache == "key_0":
                yield _node("Shape", ["new_key_0"], "n_rows", start=1, end=2)
                yield _node("Cast", ["n_rows"], "lengths", to=_INT32)
        elif node.output[0] not in dropped:
            yield _renamed(node, lambda name: renamed.get(name, name))


def _renamed(node: Any, name_of: Callable[[str], str]) -> Any:
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    for values in (copied.input, copied.output):
        values[:] = [name_of(name) for name in values]
    return copied


def _sizes(shape: Shape, grown: int | str) -> Shape:
    """Put a size in the place of the one that grows."""
    return [grown if isinstance(size, str) else size for size in shape]


def _node(op: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs, [output], **attributes)
