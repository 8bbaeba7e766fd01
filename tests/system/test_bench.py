"""`recoversat bench` with real processes: ours, a one-step model and CTranslate2 on the same sentences."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recoversat.engines.loading import native_engine
from recoversat.export.ctranslate2 import export_ctranslate2
from recoversat.export.folder import export_folder
from tests.system.conftest import Run
from tests.system.tiny_model import write_sentences, write_tiny_model

pytest.importorskip("ctranslate2")


def test_systems_are_timed_on_a_text(tmp_path: Path, recoversat: Run) -> None:
    model = write_tiny_model(tmp_path / "model")
    export_folder(model, tmp_path / "onnx", ("fp32", "int8"), None, force=True)
    export_ctranslate2(model, tmp_path / "ct2", ("fp32",), None)
    nat = write_tiny_model(tmp_path / "nat", kind="nat")
    lines = write_sentences(tmp_path / "src", 12)
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in lines))
    systems = {
        "k4": f"{tmp_path / 'onnx'}:segments=4", "auto": f"{tmp_path / 'onnx'}:segments=auto",
        "at": f"{tmp_path / 'onnx'}:segments=1:compute=float32",
        "at4": f"{model}:segments=1:beam=4", "nat": nat, "peer": f"{tmp_path / 'ct2'}:compute=float32",
        "peer8": f"{tmp_path / 'ct2'}:beam=4:compute=int8", "wrong": f"{tmp_path / 'ct2'}:segments=4",
        "gone": tmp_path / "nowhere", "other": f"{tmp_path / 'ct2'}:writes=5",
    }  # fmt: skip
    options = [part for name, path in systems.items() for part in ("--system", f"{name}={path}")]
    files = ["--src", tmp_path / "src", "--ref", tmp_path / "ref", "--out", tmp_path / "out"]
    few = ["--rounds", 2, "--batch", 1, "--batch", 4, "--threads", 1, "--sentences", 6, "--warm-up", 0]
    done = recoversat("bench", *options, *files, *few)
    written = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert [system["name"] for system in written["systems"]] == list(systems)
    errors = {system["name"]: system["error"] for system in written["systems"] if system["error"]}
    assert errors == {
        "wrong": "wrong: CTranslate2 writes one segment; leave out :segments=4",
        "gone": f"{tmp_path / 'nowhere'}: no such model folder",
    }
    families = {system["name"]: system["family"] for system in written["systems"]}
    assert [families[name] for name in ("k4", "auto", "at", "nat", "peer")] == [
        "recoversat", "recoversat", "at", "nat", "ctranslate2",
    ]  # fmt: skip
    assert {(row["system"], row["batch"]) for row in written["rows"]} == {
        (name, batch) for name in systems if name not in errors for batch in (1, 4)
    }
    assert all(row["calls"] == (12 if row["batch"] == 1 else 2) for row in written["rows"])
    assert {(one["system"], one["over"]) for one in written["ratios"]} == {
        (name, over) for name in ("k4", "auto", "nat") for over in ("at", "at4", "peer", "peer8", "other")
    }
    assert written["bleu"].keys() == systems.keys() - errors.keys() - {"other"}
    assert "other (untrained) writes 5 tokens, not scored." in done.stdout
    assert ">other</text>" in (tmp_path / "out" / "plots" / "bleu-against-latency.svg").read_text()
    assert written["same_text"] == {"peer = at": [12, 12]}
    assert written["bleu"]["peer"] == written["bleu"]["at"]
    assert len((tmp_path / "out" / "outputs" / "k4.txt").read_text().splitlines()) == 12
    assert {path.name for path in (tmp_path / "out" / "plots").iterdir()} == {
        f"{name}.{kind}"
        for name in ("latency-by-length", "bleu-against-latency", "bleu-against-throughput")
        for kind in ("svg", "png")
    }
    assert "peer writes what at writes in 12 of 12 sentences." in done.stdout
    assert done.stdout.strip() in (tmp_path / "out" / "bench.md").read_text()
    assert recoversat("bench", *options, *files, *few, expect=2).stderr.endswith("add --force to replace it\n")


def test_systems_may_be_loaded_together(tmp_path: Path, recoversat: Run) -> None:
    model = write_tiny_model(tmp_path / "model")
    write_sentences(tmp_path / "src", 4)
    systems = [part for k in (1, 2) for part in ("--system", f"k{k}={model}:segments={k}")]
    few = ["--rounds", 1, "--batch", 1, "--threads", 1, "--sentences", 2, "--warm-up", 0]
    recoversat("bench", *systems, "--src", tmp_path / "src", "--out", tmp_path / "out", *few, "--together")
    written = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert [(one["name"], one["start_s"], one["error"]) for one in written["systems"]] == [
        ("k1", 0, None),
        ("k2", 0, None),
    ]
    assert len(written["rows"]) == 2


def test_untrained_models_are_made_up_and_timed(
    tmp_path: Path, recoversat: Run, not_tested: Callable[[str], None]
) -> None:
    systems = 19 if native_engine() else 15
    if not native_engine():
        not_tested("the times of the engine in C++: it is not installed here")
    shape = "d_model=32,d_hidden=32,n_heads=2,encoder_layers=1,decoder_layers=1"
    few = ["--rounds", 1, "--batch", 1, "--batch", 3, "--threads", 1, "--sentences", 2, "--length", 9]
    more = ["--vocab", 64, "--segments", 3, "--out", tmp_path / "out", "--warm-up", 0.01]
    done = recoversat("bench", "--untrained", shape, *few, *more)
    assert "translations of exactly 9: 9 steps one by one, 5 with K = 3" in done.stdout
    assert "Marian's wheel is built without some AVX2 kernels" in done.stdout
    written = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert len(written["systems"]) == systems
    assert not [system["error"] for system in written["systems"] if system["error"]]
    assert len(written["rows"]) == 2 * systems
    assert {point["length"] for point in written["growth"]} == {4, 9, 18, 36}
    overs = {one["over"] for one in written["ratios"]}
    assert {
        "our AT greedy int8",
        "CTranslate2 greedy int8",
        "CTranslate2 beam 4 int8",
        "CTranslate2 greedy int8 vmap",
        "Marian beam 4 float32 ssru",
    } <= overs


def test_without_anything_to_time_it_says_what_to_give(tmp_path: Path, recoversat: Run) -> None:
    done = recoversat("bench", "--out", tmp_path / "out", expect=2)
    assert "nothing to time: give --src FILE and --system NAME=MODEL" in done.stderr
    mixed = ["--untrained", "wmt14", "--src", tmp_path / "x", "--out", tmp_path / "out"]
    assert "leave out --system, --src and --ref" in recoversat("bench", *mixed, expect=2).stderr
