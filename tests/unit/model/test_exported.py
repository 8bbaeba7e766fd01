"""The weights of an exported int8 model, multiplied out; and a training that goes on from them."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.files.model_folder import WEIGHTS, builtin_model, read_config
from recoversat.model.exported import exported_weights, load_exported
from recoversat.model.transformer import Transformer
from recoversat.model.weights import read_weights
from recoversat.translator import Translator
from tests.system.tiny_model import write_tiny_model

LINES = [f"w{i} w{i + 1} w{(i * 7) % 180}" for i in range(1, 60)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Text in the words of a model, and that model, exported."""
    write_tiny_model(tmp_path / "model")
    for name in ("src", "tgt"):
        (tmp_path / name).write_text("\n".join(LINES) + "\n", encoding="utf-8")
    paths = ["--src", "src", "--tgt", "tgt", "--valid-src", "src", "--valid-tgt", "tgt", "--out", "corpus"]
    paths = [word if word.startswith("--") else str(tmp_path / word) for word in paths]
    config = str(tmp_path / "model" / "config.json")
    run("prepare", *paths, "--config", config, "--tokenizer-from", str(tmp_path / "model"))
    for precision in ("int8", "fp32"):
        out = str(tmp_path / precision)
        run("export", str(tmp_path / "model"), out, "--precision", precision, "--corpus", str(tmp_path / "corpus"))
    return tmp_path / "corpus"


def run(*words: str) -> None:
    result = CliRunner().invoke(app, [*words])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output


def train(corpus: Path, start: str, *more: str) -> Path:
    """Train for one update, which at this rate changes nothing; return the model."""
    folder, out = corpus.parent, corpus.parent / f"from-{start}"
    run(
        "train", str(corpus), "--out", str(out), "--config", str(folder / "model/config.json"),
        "--init-from", str(folder / start), "--device", "cpu", "--set", "train.steps=1", "--set", "train.workers=0",
        "--set", "train.learning_rate=1e-12", *more,
    )  # fmt: skip
    return out / "best"


def within_half_a_step(found: Tensor, exported: Tensor) -> bool:
    """Say whether each row lies within half a step of what was exported; int8 has 127 steps to the largest."""
    if exported.dim() == 1:
        return torch.equal(found, exported)
    step = exported.abs().amax(dim=1, keepdim=True) / 127
    return bool(((found - exported).abs() <= 0.501 * step).all()) and not torch.equal(found, exported)


def test_weights_are_those_that_were_exported(corpus: Path) -> None:
    exported, found = read_weights(corpus.parent / "model"), exported_weights(corpus.parent / "int8")
    assert found.keys() == exported.keys()
    for name, weight in exported.items():
        if name == "segment_embedding.weight":
            assert torch.equal(found[name], weight)
        else:
            assert within_half_a_step(found[name], weight), name


@pytest.mark.parametrize("with_decoder", [False, True])
def test_training_goes_on_from_an_exported_model(corpus: Path, with_decoder: bool) -> None:
    more = ["--init-decoder"] if with_decoder else []
    best, start = read_weights(train(corpus, "int8", *more)), exported_weights(corpus.parent / "int8")
    parts = ("encoder.", "embedding.", *(("decoder.", "segment_embedding.") if with_decoder else ()))
    for name, weight in start.items():
        if weight.dim() == 2 or name.startswith(parts):  # fresh norms are alike everywhere
            assert torch.allclose(best[name], weight, atol=1e-9) == name.startswith(parts), name
    facts = json.loads((corpus.parent / "from-int8" / "run.json").read_text())
    assert "encoder." in facts["initialised_from"]


def test_what_cannot_be_multiplied_out_is_refused(corpus: Path) -> None:
    with pytest.raises(UserError, match=r"no torch weights here .* name the model this one was exported from"):
        train(corpus, "fp32")
    assert not (corpus.parent / "from-fp32" / "config.yaml").exists()
    shutil.copytree(corpus.parent / "int8", corpus.parent / "damaged")
    (corpus.parent / "damaged/int8.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        train(corpus, "damaged")


def test_torch_weights_go_before_what_was_made_of_them(corpus: Path) -> None:
    shutil.copytree(corpus.parent / "int8", corpus.parent / "both")
    shutil.copy(corpus.parent / "model" / WEIGHTS, corpus.parent / "both" / WEIGHTS)
    best, exact = read_weights(train(corpus, "both")), read_weights(corpus.parent / "model")
    assert torch.allclose(best["embedding.weight"], exact["embedding.weight"], atol=1e-9)


def test_the_built_in_model_can_be_gone_on_from() -> None:
    folder = builtin_model("en", "de")
    config, _ = read_config(folder)
    model = Transformer(config.model)
    model.load_state_dict(exported_weights(folder))  # strict: all are there, and no others


@pytest.mark.parametrize("engine_of", [TorchEngine, GraphEngine])
def test_the_built_in_model_says_nearly_the_same_in_torch(engine_of: type[TorchEngine | GraphEngine]) -> None:
    """A GPU runs the same graphs; here they run without being captured."""
    lines = (Path(__file__).parents[2] / "data" / "tatoeba.en").read_text(encoding="utf-8").splitlines()[:40]
    int8 = Translator(source="en", target="de", compute_type="int8", device="cpu", intra_threads=1)
    model, config = load_exported(builtin_model("en", "de"))
    engine = engine_of(model.eval(), torch.device("cpu"), torch.float32)
    other = Translator.of(engine, int8.tokenizer, config).into("de")
    for k in (1, 4):
        written, wanted = ([one.text for one in each.translate(lines, segments=k)] for each in (other, int8))
        assert sum(map(str.__eq__, written, wanted)) >= 34
