"""A shortlist, made by the real command from text or a corpus: used by default, switched off in three ways."""

import json
from pathlib import Path

import pytest

from recoversat import Translator
from recoversat.engines.onnx import engine
from recoversat.engines.onnx.shortlist import GRAPHS, LISTED_STEP, Lists
from recoversat.engines.vocabulary import TABLE
from recoversat.export.folder import export_folder
from recoversat.files.model_folder import read_config
from recoversat.measuring.specs import parse_system
from tests.processors import needs_vnni
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


@needs_vnni
@pytest.mark.parametrize("segments", [1, 3])
def test_a_verified_list_changes_nothing(
    listed: Path, text: Path, recoversat: Run, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_LARGE", 0)  # a model as small as this one would not write from lists
    verified, held = Lists.verified, []
    monkeypatch.setattr(Lists, "verified", lambda *given: held.append(verified(*given)) or held[-1])
    options = [text, "--model", listed, "--segments", segments, "--batch-size", 1]
    short, whole = (recoversat("translate", *options, *more).stdout for more in ([], ["--no-shortlist"]))
    assert short == whole
    translator, lines = Translator(listed), text.read_text().splitlines()
    verified_ones = translator.translate(lines, segments=segments, batch_size=1)
    assert len(held) == len(lines)
    translator.set_decoding(shortlist=False)
    whole_ones = translator.translate(lines, segments=segments, batch_size=1)
    assert [one.text for one in verified_ones] == [one.text for one in whole_ones] == whole.splitlines()
    # exported without a corpus, rows of a product share a scale, and a product of all rows has another one
    assert [one.score for one in verified_ones] == pytest.approx([one.score for one in whole_ones], abs=0.02)


@needs_vnni
def test_lists_alone_are_used_and_switched_off(listed: Path, text: Path, recoversat: Run) -> None:
    lines = text.read_text().splitlines()
    set_in(listed, verify_shortlist=False)
    translator = Translator(listed)
    options = ["--model", listed, "--segments", 1]
    short = [one.text for one in translator.translate(lines, segments=1)]
    assert recoversat("translate", text, *options).stdout.splitlines() == short
    translator.set_decoding(shortlist=False)
    whole = [one.text for one in translator.translate(lines, segments=1)]
    assert recoversat("translate", text, *options, "--no-shortlist").stdout.splitlines() == whole
    frequent = [{*line.split()} - {*source.split()} for line, source in zip(short, lines, strict=True)]
    assert len(set().union(*frequent)) <= 5
    assert len(set().union(*(line.split() for line in whole)) - set().union(*(line.split() for line in lines))) > 5


def test_a_model_can_be_set_to_do_without(listed: Path, text: Path) -> None:
    lines = text.read_text().splitlines()
    translator = Translator(listed)
    translator.set_decoding(shortlist=False)
    whole = [one.text for one in translator.translate(lines, segments=1)]
    set_in(listed, shortlist=False)
    assert [one.text for one in Translator(listed).translate(lines, segments=1)] == whole
    assert parse_system(f"plain={listed}:shortlist=false").decode == {"shortlist": "false"}
    assert parse_system(f"quick={listed}:verify_shortlist=false").decode == {"verify_shortlist": "false"}


def test_what_was_there_stays_and_what_is_new_is_noted(model: Path, listed: Path, tmp_path: Path) -> None:
    export_folder(model, tmp_path / "plain", ("int8", "fp32"), None)
    notes = json.loads((listed / "export.json").read_text())
    for precision in ("int8", "fp32"):
        files = {path.name: path.stat().st_size for path in (listed / "onnx" / precision).iterdir()}
        assert files == notes["precisions"][precision]["files"]
        for path in (tmp_path / "plain" / "onnx" / precision).iterdir():
            assert (listed / "onnx" / precision / path.name).read_bytes() == path.read_bytes()
        assert set(GRAPHS) <= set(files)
    assert notes["shortlist"]["bytes"] == (listed / "onnx" / TABLE).stat().st_size
    assert read_config(listed) == read_config(tmp_path / "plain")


def test_a_cut_off_graph_is_noticed(listed: Path, recoversat: Run) -> None:
    path = listed / "onnx" / "int8" / LISTED_STEP
    path.write_bytes(path.read_bytes()[:-5])
    done = recoversat("translate", "--model", listed, stdin="w1\n", expect=2)
    assert f"damaged ({LISTED_STEP} is" in done.stderr


def test_export_makes_a_list_from_its_corpus(model: Path, text: Path, tmp_path: Path, recoversat: Run) -> None:
    valid = ["--valid-src", text, "--valid-tgt", text]
    more = ["--tokenizer-from", model, "--set", "data.tokenizer=bpe"]
    recoversat("prepare", "--src", text, "--tgt", text, *valid, "--out", tmp_path / "corpus", *more)
    options = ["--corpus", tmp_path / "corpus", "--precision", "int8", "--force"]
    done = recoversat("export", model, tmp_path / "out", *options, "--shortlist")
    assert "shortlist: " in done.stderr
    assert (tmp_path / "out" / "onnx" / TABLE).is_file()
    recoversat("export", model, tmp_path / "without", *options)
    assert not (tmp_path / "without" / "onnx" / TABLE).exists()


def test_mistakes_are_named(model: Path, listed: Path, text: Path, tmp_path: Path, recoversat: Run) -> None:
    def said(*arguments: object) -> str:
        return recoversat(*arguments, expect=2).stderr

    assert "give either --corpus, or --src and --tgt" in said("shortlist", listed)
    assert "give --src and --tgt together" in said("shortlist", listed, "--src", text)
    assert "not an exported model" in said("shortlist", model, "--src", text, "--tgt", text)
    (tmp_path / "empty").write_text("")
    assert "there are none" in said("shortlist", listed, "--src", tmp_path / "empty", "--tgt", tmp_path / "empty")
    assert "made from --corpus" in said("export", model, tmp_path / "new", "--shortlist")
    refused = said("translate", text, "--model", listed, "--no-shortlist", "--workers", 1, "--out", tmp_path / "x")
    assert "take no options that show or steer" in refused


def test_a_table_alone_is_for_the_engine_in_cpp(model: Path, tmp_path: Path, text: Path, recoversat: Run) -> None:
    folder, whole = tmp_path / "exported", tmp_path / "whole"
    for out in (folder, whole):
        export_folder(model, out, ("int8",), None)
    graphs = sorted(path.name for path in (folder / "onnx" / "int8").iterdir())
    numbers = ["--likeliest", 1, "--frequent", 5]
    done = recoversat("shortlist", folder, "--src", text, "--tgt", text, *numbers, "--table-only")
    assert "of 185 pieces a sentence, from 30 pairs" in done.stderr
    told = recoversat("shortlist", whole, "--src", text, "--tgt", text, *numbers).stderr
    assert done.stderr == told  # what a list would suffice for is counted without it
    assert (folder / "onnx" / TABLE).is_file()
    assert sorted(path.name for path in (folder / "onnx" / "int8").iterdir()) == graphs
    set_in(folder, verify_shortlist=False)  # ONNX Runtime does without
    lines = text.read_text().splitlines()
    plain, alone = (Translator(out).translate(lines, segments=1) for out in (whole, folder))
    assert [one.text for one in alone] == [one.text for one in plain]
