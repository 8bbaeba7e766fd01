"""Calibrating the built-in model on a few lines, by the command; and what that changes."""

import json
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recoversat import Translator
from recoversat.cli import app
from recoversat.files.model_folder import builtin_model
from recoversat.inference.confidence import CALIBRATION

DATA = Path(__file__).parents[1] / "data"
LINE = "The children play in the garden."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The built-in model without its calibration."""
    made = tmp_path / "model"
    made.mkdir()
    for path in builtin_model("en", "de").iterdir():
        if path.name != CALIBRATION:
            (made / path.name).symlink_to(path)
    return made


def test_the_built_in_model_is_calibrated_both_ways() -> None:
    for source, target in (("en", "de"), ("de", "en")):
        curve = Translator(source=source, target=target).curve
        assert curve is not None
        assert curve.sentences >= 600
        assert curve.probability([-0.05] * 20) > 0.9 > curve.probability([-3.0] * 20)


def test_the_command_fits_a_curve_and_the_model_uses_it(folder: Path, tmp_path: Path) -> None:
    files = []
    for language in ("en", "de"):
        files.append(tmp_path / f"valid.{language}")
        with open(DATA / f"tatoeba.{language}", encoding="utf-8") as lines:
            files[-1].write_text("".join(islice(lines, 120)), encoding="utf-8")
    (before,) = Translator(folder, target="de").translate([LINE], confidence=True)
    command = ["calibrate", "--model", str(folder), "--to", "de", "--src", str(files[0]), "--tgt", str(files[1])]
    done = CliRunner().invoke(app, [*command, "--chrf", "60"], catch_exceptions=False)
    assert "Reliability" in done.stdout
    assert "at least 60 chrF2++" in done.stdout
    kept = json.loads((folder / CALIBRATION).read_text(encoding="utf-8"))
    assert (kept["chrf"], list(kept["directions"]), kept["directions"]["en-de"]["sentences"]) == (60, ["en-de"], 120)
    translator = Translator(folder, target="de")
    (after,) = translator.translate([LINE], confidence=True)
    assert after.text == before.text
    assert after.confidence != before.confidence
    (scored,) = translator.score_batch([LINE], [after.text])
    assert translator.curve is not None
    assert after.confidence == pytest.approx(translator.curve.probability(scored.segments[0].log_probs), abs=1e-6)
    assert translator.into("en").curve is None
    refused = CliRunner().invoke(app, [*command, "--chrf", "100"]).exception
    assert "chrF2++ is between 0 and 100" in str(refused)


def test_serve_takes_glossaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr("recoversat.serve.process.server.serve", given.append)
    CliRunner().invoke(app, ["serve", "--glossary", "a.tsv", "--glossary", "en-de=b.tsv"], catch_exceptions=False)
    assert given[0].glossaries == ["a.tsv", "en-de=b.tsv"]
