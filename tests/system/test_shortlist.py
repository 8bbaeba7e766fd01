"""A shortlist, made by the real command from text or a corpus: used by default, switched off in three ways."""

import json
from pathlib import Path

import pytest

from recoversat import Translator
from recoversat.engines.vocabulary import TABLE
from recoversat.export.folder import export_folder
from recoversat.files.model_folder import read_config
from recoversat.measuring.specs import parse_system
from tests.system.conftest import Run
from tests.system.tiny_model import write_sentences, write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    write_sentences(tmp_path / "text", 30)
    return tmp_path / "text"


@pytest.fixture
def listed(model: Path, tmp_path: Path, text: Path, recoversat: Run) -> Path:
    """Export without, and add a list that makes the model copy: every piece becomes itself, and few are frequent."""
    export_folder(model, tmp_path / "listed", ("int8", "fp32"), None)
    numbers = ["--likeliest", 1, "--frequent", 5]
    done = recoversat("shortlist", tmp_path / "listed", "--src", text, "--tgt", text, *numbers)
    assert "of 185 pieces a sentence, from 30 pairs" in done.stderr
    return tmp_path / "listed"


def set_in(model: Path, **decode: bool) -> None:
    settings = json.loads((model / "config.json").read_text())
    settings["decode"] |= decode
    (model / "config.json").write_text(json.dumps(settings))


def test_onnx_runtime_does_without(listed: Path, text: Path) -> None:
    lines = text.read_text().splitlines()
    set_in(listed, verify_shortlist=False)
    translator = Translator(listed, compute_type="int8_onnx")
    short = [one.text for one in translator.translate(lines, segments=1)]
    translator.set_decoding(shortlist=False)
    assert [one.text for one in translator.translate(lines, segments=1)] == short


def test_a_model_can_be_set_to_do_without(listed: Path, text: Path) -> None:
    lines = text.read_text().splitlines()
    translator = Translator(listed)
    translator.set_decoding(shortlist=False)
    whole = [one.text for one in translator.translate(lines, segments=1)]
    set_in(listed, shortlist=False)
    assert [one.text for one in Translator(listed).translate(lines, segments=1)] == whole
    assert parse_system(f"plain={listed}:shortlist=false").decode == {"shortlist": "false"}
    assert parse_system(f"quick={listed}:verify_shortlist=false").decode == {"verify_shortlist": "false"}


def test_what_was_there_stays(model: Path, listed: Path, tmp_path: Path) -> None:
    export_folder(model, tmp_path / "plain", ("int8", "fp32"), None)
    before = {path.relative_to(tmp_path / "plain") for path in (tmp_path / "plain").rglob("*")}
    assert {path.relative_to(listed) for path in listed.rglob("*")} - before == {Path(TABLE)}
    for name in before:
        path = listed / name
        assert path.is_dir() or path.read_bytes() == (tmp_path / "plain" / name).read_bytes()
    assert read_config(listed) == read_config(tmp_path / "plain")


def test_export_makes_a_list_from_its_corpus(model: Path, text: Path, tmp_path: Path, recoversat: Run) -> None:
    valid = ["--valid-src", text, "--valid-tgt", text]
    more = ["--tokenizer-from", model, "--set", "data.tokenizer=bpe"]
    recoversat("prepare", "--src", text, "--tgt", text, *valid, "--out", tmp_path / "corpus", *more)
    options = ["--corpus", tmp_path / "corpus", "--precision", "int8", "--force"]
    done = recoversat("export", model, tmp_path / "out", *options, "--shortlist")
    assert "shortlist: " in done.stderr
    assert (tmp_path / "out" / TABLE).is_file()
    recoversat("export", model, tmp_path / "without", *options)
    assert not (tmp_path / "without" / TABLE).exists()


def test_mistakes_are_named(model: Path, listed: Path, text: Path, tmp_path: Path, recoversat: Run) -> None:
    def said(*arguments: object) -> str:
        return recoversat(*arguments, expect=2).stderr

    assert "give either --corpus, or --src and --tgt" in said("shortlist", listed)
    assert "give --src and --tgt together" in said("shortlist", listed, "--src", text)
    assert "a shortlist is for int8 models" in said("shortlist", model, "--src", text, "--tgt", text)
    (tmp_path / "empty").write_text("")
    assert "there are none" in said("shortlist", listed, "--src", tmp_path / "empty", "--tgt", tmp_path / "empty")
    assert "made from --corpus" in said("export", model, tmp_path / "new", "--shortlist")
    refused = said("translate", text, "--model", listed, "--no-shortlist", "--workers", 1, "--out", tmp_path / "x")
    assert "take no options that show or steer" in refused
