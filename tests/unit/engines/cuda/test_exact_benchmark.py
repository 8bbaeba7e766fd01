"""The script that times `exact` runs on a CPU, with the built-in model's weights multiplied out."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.exact import BUILT_IN, translator_of
from recoversat import Translator

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "exact.py"
TEXTS = [
    "The children are playing in the garden because the weather is nice.",
    "Where is the station?",
    "Good morning!",
]


def test_weights_that_were_multiplied_out_translate_as_the_exported_ones() -> None:
    mine, exported = translator_of(BUILT_IN, "cpu", "de"), Translator(target="de", device="cpu", intra_threads=1)
    for how in ({"segments": 1}, {"segments": "auto"}):
        written = [[one.text for one in by.translate(TEXTS, **how)] for by in (mine, exported)]  # type: ignore[arg-type]
        assert np.equal(*written).sum() >= len(TEXTS) - 1


def test_the_script_runs_on_a_cpu(tmp_path: Path) -> None:
    out, sentences = tmp_path / "exact.json", tmp_path / "some.en"
    sentences.write_text("\n".join(TEXTS))
    command = [sys.executable, str(SCRIPT), str(sentences), "--device", "cpu", "--count", "3", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--drafts", "4", "--out", str(out)], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "encoder of 16 places alone" in done.stdout
    report = json.loads(out.read_text())
    exact = [row for row in report["rows"] if row["way"].startswith("exact")]
    assert {(row["kind"], row["as_one"], row["of"]) for row in exact} == {("ids", 3, 3), ("text", 3, 3)}
    assert {"K = 1", "exact"} == set(report["parts"])
