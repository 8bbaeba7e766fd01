"""Give an exported step graph a shortlist: logits of a few pieces instead of the whole vocabulary.

    step_listed.onnx  the step graph; where `listed` is true its output matrix is an input. Puts `hidden` out as well
    rows.onnx         cuts it: ids (L,) -> rows of the embedding as the step wants them
    choose.onnx       the end of the step graph: `hidden`, rows of the last layer (N, D) -> the best of all pieces

All are made of step.onnx alone and point at the same weights.bin, so that any exported model can get them, and those
who know nothing of lists find step.onnx as it was. L pieces of a list, N rows, D model, P padded vocabulary.
A matrix that is an input is packed anew in every step, which costs little (10 rows, D = 512, one core, us): 61 for
L = 1,024, where a constant of 12,032 columns takes 638. Unsigned weights take 96, fp32 152, rows times matrix the other
way round 137.
"""

from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from recoversat.engines.onnx.shortlist import CHOOSE, LISTED_SENTENCE, LISTED_STEP, ROWS
from recoversat.errors import UserError
from recoversat.export.onnx_sentence import sentence_graph
from recoversat.export.onnx_weights import MICROSOFT, info, model_like
from recoversat.files.storage import atomic_file

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64
_EMBEDDING, _SCALE, _HIDDEN = "embedding", "embedding.scale", "hidden"
_GIVEN = ("bias", "wanted", "scored", "n_best")  # inputs of the end of the step graph


def add_listed_graphs(folder: Path) -> None:
    """Write the graphs of lists beside step.onnx."""
    step = onnx.load_model(folder / "step.onnx", load_external_data=False)
    tensors = {tensor.name: tensor for tensor in step.graph.initializer}
    if _EMBEDDING not in tensors:
        raise UserError(f"{folder}: exported by an older version of recoversat; export the model again")
    d_model = int(tensors[_EMBEDDING].dims[1])
    last = _name_hidden(step)
    rows, choose = _rows_model(step, tensors), _choose_model(step, tensors, last, d_model)
    _list_logits(step, d_model)
    step.graph.output.append(info(_HIDDEN, _FLOAT, ["N", d_model]))
    for name, model in ((LISTED_STEP, step), (ROWS, rows), (CHOOSE, choose)):
        with atomic_file(folder / name) as scratch:
            scratch.write_bytes(model.SerializeToString())
    with atomic_file(folder / LISTED_SENTENCE) as scratch:
        scratch.write_bytes(sentence_graph(folder, LISTED_STEP))


def _rows_model(step: Any, tensors: dict[str, Any]) -> Any:
    """Build ids (L,) -> weight, int8 (D, L) and scale (L,); or fp32 (L, D), as Gemm takes it."""
    embedding = tensors[_EMBEDDING]
    dtype, (_, d_model) = embedding.data_type, embedding.dims
    ids = info("ids", _INT64, ["L"])
    if dtype == _FLOAT:
        nodes = [helper.make_node("Gather", [_EMBEDDING, "ids"], ["weight"])]
        outputs = [info("weight", dtype, ["L", d_model])]
    else:
        nodes = [
            helper.make_node("Gather", [_EMBEDDING, "ids"], ["rows"]),
            helper.make_node("Transpose", ["rows"], ["weight"], perm=[1, 0]),
            helper.make_node("Gather", [_SCALE, "ids"], ["scale"]),
        ]
        outputs = [info("weight", dtype, [d_model, "L"]), info("scale", _FLOAT, ["L"])]
    kept = [tensors[name] for name in (_EMBEDDING, _SCALE) if name in tensors]
    return model_like(step, helper.make_graph(nodes, "rows", [ids], outputs, kept))


def _name_hidden(step: Any) -> int:
    """Give what comes out of the last layer its name, and return the place of the node that makes it."""
    nodes = list(step.graph.node)
    last = max(place for place, node in enumerate(nodes) if node.op_type == "LayerNormalization")
    old = nodes[last].output[0]
    for node in nodes[last:]:
        for names in (node.input, node.output):
            names[:] = [_HIDDEN if name == old else name for name in names]
    return last


def _choose_model(step: Any, tensors: dict[str, Any], last: int, d_model: int) -> Any:
    """Build hidden (N, D) -> the best of the whole vocabulary, as the step graph chooses it after its last layer."""
    nodes = list(step.graph.node)[last + 1 :]
    used = {name for node in nodes for name in node.input}
    hidden = info(_HIDDEN, _FLOAT, ["N", d_model])
    given = [value for value in step.graph.input if value.name in _GIVEN]
    made = {name for node in nodes for name in node.output}
    outputs = [value for value in step.graph.output if value.name in made]
    kept = [tensor for name, tensor in tensors.items() if name in used]
    return model_like(step, helper.make_graph(nodes, "choose", [hidden, *given], outputs, kept))


def _list_logits(step: Any, d_model: int) -> None:
    """Put a choice in the place of the product that makes logits: over the list, or over the vocabulary as before."""
    graph = step.graph
    [place] = [at for at, node in enumerate(graph.node) if "bias" in node.input]
    whole = graph.node[place]
    logits, is_float = whole.output[0], whole.op_type == "Gemm"
    listed = [_listed_product(whole), helper.make_node("Add", ["list_product", "list_bias"], ["list_logits"])]
    unlisted = onnx.NodeProto()
    unlisted.CopyFrom(whole)
    unlisted.output[0] = "whole_logits"
    branches = {
        "then_branch": _branch("listed_logits", listed, "list_logits"),
        "else_branch": _branch("whole_logits", [unlisted], "whole_logits"),
    }
    graph.node[place].CopyFrom(helper.make_node("If", ["listed"], [logits], **branches))
    weight: tuple[int, list[int | str]] = (TensorProto.INT8, [d_model, "L"])
    weight = (_FLOAT, ["L", d_model]) if is_float else weight
    graph.input.extend([
        info("listed", TensorProto.BOOL, [1]),
        info("list_weight", *weight),
        info("list_bias", _FLOAT, ["R", "L"]),  # one row for all, or one for each
    ])  # fmt: skip
    if not is_float:
        graph.input.append(info("list_scale", _FLOAT, ["L"]))


def _listed_product(whole: Any) -> Any:
    """Return the product with the list's rows, its own bias left out."""
    if whole.op_type == "Gemm":
        return helper.make_node("Gemm", [whole.input[0], "list_weight"], ["list_product"], transB=1)
    rows, _, row_scale, _, row_zero, *_ = whole.input
    inputs = [rows, "list_weight", row_scale, "list_scale", row_zero]
    return helper.make_node(whole.op_type, inputs, ["list_product"], domain=MICROSOFT)


def _branch(name: str, nodes: list[Any], output: str) -> Any:
    return helper.make_graph(nodes, name, [], [info(output, _FLOAT, ["N", f"{name}_P"])])
