"""`recoversat export --format ctranslate2`: a teacher for another engine, which proves that it says the same."""

import json
import os
from pathlib import Path

import pytest

from recoversat import Translator
from recoversat.errors import UserError
from recoversat.export.ctranslate2 import export_ctranslate2
from recoversat.measuring.peers.ctranslate2 import CTranslate2
from recoversat.measuring.specs import SystemSpec
from tests.system.conftest import Run
from tests.system.tiny_model import write_sentences, write_tiny_model

pytest.importorskip("ctranslate2")

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ctranslate2":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("ct2") / "model")


def test_the_command_writes_a_folder_that_says_the_same(model: Path, tmp_path: Path, recoversat: Run) -> None:
    lines = write_sentences(tmp_path / "src", 60)
    wanted = Translator(model, device="cpu").translate(lines, segments=1)
    (tmp_path / "tgt").write_text("".join(f"{one.text}\n" for one in wanted))
    valid = ["--valid-src", tmp_path / "src", "--valid-tgt", tmp_path / "tgt"]
    done = recoversat("export", model, tmp_path / "out", "--format", "ctranslate2", *valid)
    assert "fp32: same as torch, greedy, in 60 of 60 sentences (whole validation text)" in done.stderr
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"model.bin", "config.json", "shared_vocabulary.json", "vocabulary.txt", "README.md"}
    assert "in 60 of 60 sentences" in (tmp_path / "out" / "README.md").read_text()
    got = CTranslate2(SystemSpec("peer", str(tmp_path / "out"))).translate(lines, 32)
    assert [(one.text, one.ids) for one in got] == [(one.text, one.ids) for one in wanted]
    system = ["--system", f"peer={tmp_path / 'out'}", "--system", f"at={model}:segments=1"]
    test = ["--test", f"t={tmp_path / 'src'},{tmp_path / 'tgt'}", "--at", "at", "--out", tmp_path / "report"]
    recoversat("evaluate", *system, *test)
    peer, own = [json.loads(line) for line in (tmp_path / "report" / "results.jsonl").read_text().splitlines()]
    assert peer["bleu"] == own["bleu"]
    assert (peer["errors"]["rep"], peer["errors"]["mis"], peer["steps"]) == (0, 0, None)
    assert peer["signature"]["engine"].startswith("ctranslate2 ")
    assert len({segment.ending for one in wanted for segment in one.segments}) > 1  # some ended, some were cut


def test_int8_is_smaller_and_measured(model: Path, tmp_path: Path, recoversat: Run) -> None:
    done = recoversat("export", model, tmp_path / "out", "--format", "ctranslate2", "--precision", "int8")
    assert "fp32: same as torch, greedy, in 32 of 32 sentences (random ids" in done.stderr
    assert "int8: " in done.stderr
    assert str(CTranslate2(SystemSpec("peer", str(tmp_path / "out"))).facts["precision"]).startswith("int8")


def test_what_cannot_be_exported_is_refused_with_the_fix(model: Path, tmp_path: Path, recoversat: Run) -> None:
    one_step = write_tiny_model(tmp_path / "nat", kind="nat")
    with pytest.raises(UserError, match=r"no models of kind 'nat'; name a teacher"):
        export_ctranslate2(one_step, tmp_path / "out", (), None)
    with pytest.raises(UserError, match="one precision a folder"):
        export_ctranslate2(model, tmp_path / "out", ("fp32", "int8"), None)
    parallel = write_tiny_model(tmp_path / "k4")
    config = parallel / "config.json"
    text = config.read_text()
    start = text.index('"segments": [')
    config.write_text(text[:start] + '"segments": 4' + text[text.index("]", start) + 1 :])
    with pytest.raises(UserError, match=r"only learnt K = 4; name its teacher, or train with train.segments=\[1,4\]"):
        export_ctranslate2(parallel, tmp_path / "out", (), None)
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    without = os.environ | {"PYTHONPATH": str(tmp_path)}
    refused = recoversat("export", model, tmp_path / "out", "--format", "ctranslate2", env=without, expect=2)
    assert "CTranslate2 is not installed: pip install 'recoversat[peers]'" in refused.stderr
    assert not (tmp_path / "out").exists()
