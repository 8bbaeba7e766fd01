"""Which engine a model folder gets, and what is refused: graphs that are damaged or belong to another model."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from recoversat import Translator
from recoversat.errors import UserError
from recoversat.export.folder import export_folder
from tests.processors import needs_vnni
from tests.system.conftest import Run
from tests.system.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of torch weights."""
    return write_tiny_model(tmp_path_factory.mktemp("model") / "torch")


@pytest.fixture(scope="module")
def exported(model: Path) -> Path:
    """The same model as ONNX graphs."""
    out = model.with_name("exported")
    export_folder(model, out, ("fp32", "int8"), None)
    return out


@pytest.fixture
def damaged(exported: Path, tmp_path: Path) -> Path:
    """A copy of the exported folder that a test may spoil."""
    return shutil.copytree(exported, tmp_path / "damaged")


def test_the_folder_decides_on_the_engine(model: Path, exported: Path, tmp_path: Path) -> None:
    def described(folder: Path, **options: object) -> tuple[object, ...]:
        description = Translator(folder, intra_threads=1, **options).engine.description  # type: ignore[arg-type,union-attr]
        return tuple(description.values())

    assert described(model, device="cpu") == ("torch", "fp32", "cpu", 1)
    assert described(exported) == ("onnx", "int8", "cpu", 1)
    assert described(exported, compute_type="float32") == ("onnx", "fp32", "cpu", 1)
    mixed = shutil.copytree(model, tmp_path / "mixed")
    shutil.copytree(exported / "onnx" / "fp32", mixed / "onnx" / "fp32")
    assert described(mixed) == ("onnx", "fp32", "cpu", 1)
    with pytest.raises(UserError, match="holds no int8 weights"):
        Translator(mixed, compute_type="int8")
    with pytest.raises(UserError, match="which run on the CPU; use device cpu"):
        Translator(exported, device="cuda")
    with pytest.raises(UserError, match="there are: default, int8, int8_native, float16, bfloat16, float32"):
        Translator(exported, compute_type="int4")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="whose memory cannot be bounded; run 'recoversat export'"):
        Translator(model, device="cpu", max_memory=10**9)


def test_threads_follow_the_environment_where_nothing_is_asked(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Translator(exported).engine.description["threads"] == 3  # type: ignore[union-attr]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert Translator(exported).engine.description["threads"] == len(os.sched_getaffinity(0))  # type: ignore[union-attr]


def test_threads_asked_for_are_threads_used(model: Path, exported: Path) -> None:
    before = torch.get_num_threads()
    try:
        for folder in (model, exported):
            translator = Translator(folder, device="cpu", intra_threads=before + 1)
            assert translator.engine.description["threads"] == before + 1  # type: ignore[union-attr]
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


GRAPHS = ["weights.bin", "step.onnx", "encoder.onnx", "probe.onnx", pytest.param("sentence.onnx", marks=needs_vnni)]


@pytest.mark.parametrize("name", GRAPHS)
def test_a_cut_off_file_is_refused_by_name(damaged: Path, name: str) -> None:
    path = damaged / "onnx" / "int8" / name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=rf"int8: damaged \({name} is .* bytes, not .*\); export the model again"):
        Translator(damaged)
    path.unlink()
    with pytest.raises(UserError, match=rf"damaged \({name} is missing\)"):
        Translator(damaged)
    (damaged / "export.json").unlink()  # without its notes the graphs themselves must be good
    path.write_bytes(b"no graph")
    with pytest.raises(UserError, match=r"\.onnx: damaged, or of another version"):
        Translator(damaged).translate(["w1", "w2"])  # graphs are opened when they are needed


def test_the_command_refuses_a_damaged_folder_in_one_line(damaged: Path, recoversat: Run) -> None:
    graph = damaged / "onnx" / "int8" / "step.onnx"
    graph.write_bytes(b"\xff" * graph.stat().st_size)
    refused = recoversat("translate", "--model", damaged, stdin="w1\nw2\n", expect=2)
    assert refused.stderr.startswith("error: ")
    assert "step.onnx: damaged, or of another version" in refused.stderr


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"d_model": 64}, "d_model is 32, config.json says 64"),
        ({"decoder_layers": 1}, "decoder_layers is 2, config.json says 1"),
        ({"n_heads": 2}, "n_heads is 4, config.json says 2"),
        ({"vocab_size": 300}, "256 tokens, config.json says 300"),
    ],
)
def test_the_graph_of_another_model_is_refused(damaged: Path, changed: dict[str, int], reason: str) -> None:
    config = json.loads((damaged / "config.json").read_text())
    config["model"] |= changed
    (damaged / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=rf"the graph of another model \({reason}\)"):
        Translator(damaged)


def test_a_folder_whose_notes_or_graphs_are_not_its_own_is_refused(damaged: Path) -> None:
    (damaged / "export.json").write_text('{"precisions": {}}')
    with pytest.raises(UserError, match="says nothing of onnx/int8"):
        Translator(damaged)
    shutil.rmtree(damaged / "onnx")
    (damaged / "onnx").mkdir()
    with pytest.raises(UserError, match="no exported model here"):
        Translator(damaged)
