"""Which engine a model folder gets, and what is refused: weights that are damaged or belong to another model."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from recoversat import Translator
from recoversat.engines import loading
from recoversat.errors import UserError
from recoversat.export.folder import export_folder
from recoversat.files.model_folder import read_config
from tests.system.conftest import Run
from tests.system.tiny_model import write_sentences, write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of torch weights."""
    return write_tiny_model(tmp_path_factory.mktemp("model") / "torch")


@pytest.fixture(scope="module")
def exported(model: Path) -> Path:
    """The same model, exported."""
    out = model.with_name("exported")
    export_folder(model, out, ("fp32", "int8"), None)
    return out


@pytest.fixture
def damaged(exported: Path, tmp_path: Path) -> Path:
    """A copy of the exported folder that a test may spoil."""
    return shutil.copytree(exported, tmp_path / "damaged")


def described(folder: Path, **options: object) -> tuple[object, ...]:
    description = Translator(folder, intra_threads=1, **options).engine.description  # type: ignore[arg-type]
    return tuple(description.values())


def test_the_folder_decides_on_the_engine(model: Path, exported: Path, tmp_path: Path) -> None:
    assert described(model, device="cpu") == ("torch", "fp32", "cpu", 1)
    assert described(exported, compute_type="int8_onnx") == ("onnx", "int8", "cpu", 1)
    assert described(exported) == described(exported, compute_type="int8")
    assert described(exported)[1:] == ("int8", "cpu", 1)
    assert described(exported, compute_type="float32") == ("onnx", "fp32", "cpu", 1)
    mixed = shutil.copytree(model, tmp_path / "mixed")
    shutil.copytree(exported / "onnx" / "fp32", mixed / "onnx" / "fp32")
    assert described(mixed) == ("onnx", "fp32", "cpu", 1)
    for compute in ("int8", "int8_onnx", "int8_native"):
        with pytest.raises(UserError, match=rf"compute type {compute} needs int8\.safetensors: recoversat export"):
            described(mixed, compute_type=compute)
    with pytest.raises(UserError, match="compute type int8 runs on a CPU; leave it out"):
        described(exported, device="cuda", compute_type="int8")
    with pytest.raises(UserError, match="choose default, int8, int8_onnx, int8_native, float16, bfloat16, float32"):
        described(exported, compute_type="int4")
    with pytest.raises(UserError, match="memory of torch cannot be bounded; use an exported model"):
        described(model, device="cpu", max_memory=10**9)
    shutil.rmtree(mixed / "onnx")
    shutil.copytree(exported / "onnx" / "fp32", tmp_path / "graphs" / "onnx" / "fp32")
    shutil.copy(exported / "config.json", tmp_path / "graphs")
    shutil.copy(exported / "vocabulary.txt", tmp_path / "graphs")
    with pytest.raises(UserError, match="fp32 graphs alone; use device cpu"):
        described(tmp_path / "graphs", device="cuda")


def test_int8_weights_alone_run_in_torch_too(model: Path, exported: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(exported, tmp_path / "alone", ignore=shutil.ignore_patterns("fp32"))
    assert described(alone, compute_type="float32") == ("torch", "fp32", "cpu", 1)
    lines = write_sentences(tmp_path / "text", 30)
    one, other = (Translator(alone, compute_type=compute) for compute in ("float32", "int8"))  # type: ignore[arg-type]
    wanted, got = ([t.text for t in translator.translate(lines, segments=2)] for translator in (one, other))
    assert sum(map(str.__eq__, wanted, got)) > 15
    assert wanted != [t.text for t in Translator(model, device="cpu").translate(lines, segments=2)]  # not those weights


def test_without_the_engine_in_cpp_onnx_runtime_does_it_and_says_so_once(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loading, "native_engine", lambda: None)
    loading._tell_what_is_missing.cache_clear()
    for _ in range(2):
        assert described(exported) == ("onnx", "int8", "cpu", 1)
    assert capsys.readouterr().err.count("the engine in C++ is not installed") == 1
    with pytest.raises(UserError, match="compute type int8_native: the engine in C\\+\\+ is not installed; use int8"):
        described(exported, compute_type="int8_native")
    loading._tell_what_is_missing.cache_clear()
    assert described(exported, compute_type="int8_onnx")[0] == "onnx"
    assert capsys.readouterr().err == ""


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


FILES = [
    ("int8", "int8.safetensors"), ("int8_onnx", "int8.safetensors"), ("int8_onnx", "onnx/int8/step.onnx"),
    ("int8_onnx", "onnx/int8/encoder.onnx"), ("int8_onnx", "onnx/int8/probe.onnx"),
    ("float32", "onnx/fp32/step.onnx"), ("float32", "onnx/fp32/encoder.onnx"), ("float32", "onnx/fp32/weights.bin"),
]  # fmt: skip


@pytest.mark.parametrize(("compute", "name"), FILES)
def test_a_damaged_file_is_refused_by_name(damaged: Path, compute: str, name: str) -> None:
    path = damaged / name
    place = path.name if path.name != "weights.bin" else "encoder.onnx"  # which names it
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"no model", b""):
        path.write_bytes(content)
        with pytest.raises(UserError, match=rf"{place}: damaged"):
            described(damaged, compute_type=compute)
    path.unlink()
    with pytest.raises(UserError, match=rf"{path.name} is missing|{place}: damaged|needs {path.name}"):
        described(damaged, compute_type=compute)


def test_the_command_refuses_a_damaged_folder_in_one_line(damaged: Path, recoversat: Run) -> None:
    weights = damaged / "int8.safetensors"
    weights.write_bytes(b"\xff" * weights.stat().st_size)
    refused = recoversat("translate", "--model", damaged, stdin="w1\nw2\n", expect=2)
    assert refused.stderr.startswith("error: ")
    assert "int8.safetensors: damaged" in refused.stderr


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"d_model": 64}, "d_model is 32, config.json says 64"),
        ({"decoder_layers": 1}, "decoder_layers is 2, config.json says 1"),
        ({"n_heads": 1}, "n_heads is 2, config.json says 1"),
        ({"vocab_size": 300}, "vocab_size, in whole blocks, is 256, config.json says 384"),
    ],
)
def test_the_weights_of_another_model_are_refused(damaged: Path, changed: dict[str, int], reason: str) -> None:
    config = json.loads((damaged / "config.json").read_text())
    config["model"] |= changed
    (damaged / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=rf"the graph of another model \({reason}\)"):
        described(damaged, compute_type="float32")
    for compute in ("int8", "int8_onnx"):
        with pytest.raises(UserError, match=r"the weights of another model than config\.json describes"):
            described(damaged, compute_type=compute)


def test_a_folder_of_an_older_version_names_the_command_that_converts_it(
    damaged: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (damaged / "int8.safetensors").rename(damaged / "onnx/int8/weights.bin")
    for compute in ("default", "int8"):
        with pytest.raises(UserError, match=r"exported by an older version; convert it by 'recoversat export .* NEW'"):
            described(damaged, compute_type=compute)
    with pytest.raises(UserError, match="exported by an older version"):
        described(damaged, device="cuda")
    assert described(damaged, compute_type="float32")[:2] == ("onnx", "fp32")
    shutil.copy(model / "model.safetensors", damaged)  # which a GPU takes
    monkeypatch.setattr(loading, "_load_torch", lambda *_: "torch")
    config = read_config(damaged)[0].model
    assert loading.load_engine(damaged, config, loading.EngineOptions("cuda")) == "torch"
