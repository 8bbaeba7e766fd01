"""An exported model says what the original says, proves it, and needs no torch."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from recoversat import Translation, Translator
from recoversat.engines.loading import native_engine
from recoversat.errors import UserError
from recoversat.export.folder import ValidationText, export_folder, precisions_of, validation_text
from recoversat.pipeline.score_files import score_lines
from tests.system.conftest import Run
from tests.system.tiny_model import write_sentences, write_tiny_model

BLOCK_TORCH = """
import sys
BLOCKED = ()

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "onnx", *BLOCKED):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


@dataclass(frozen=True)
class Exported:
    """A model, what was exported of it with the real command, and what the command printed."""

    model: Path
    out: Path
    text: Path  # validation source
    references: Path  # what torch makes of it
    printed: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, recoversat: Run) -> Exported:
    """References are torch's own translations, so that torch has BLEU 100 and int8 a real loss to report."""
    folder = tmp_path_factory.mktemp("export")
    model = write_tiny_model(folder / "model")
    lines = write_sentences(folder / "valid.src", 60)
    translations = Translator(model, device="cpu").translate(lines)
    (folder / "valid.tgt").write_text("".join(f"{translation.text}\n" for translation in translations))
    valid = ["--valid-src", folder / "valid.src", "--valid-tgt", folder / "valid.tgt"]
    done = recoversat("export", model, folder / "out", *valid, "--force")
    return Exported(model, folder / "out", folder / "valid.src", folder / "valid.tgt", done.stderr)


def lines_of(exported: Exported) -> list[str]:
    return exported.text.read_text().splitlines()


def both(exported: Exported) -> tuple[Translator, Translator]:
    return Translator(exported.model, device="cpu"), Translator(exported.out, compute_type="float32")


def assert_same(wanted: list[Translation], got: list[Translation]) -> None:
    for one, other in zip(wanted, got, strict=True):
        assert (one.text, one.ids, one.steps) == (other.text, other.ids, other.steps)
        for mine, theirs in zip(one.segments, other.segments, strict=True):
            assert (mine.ids, mine.ending) == (theirs.ids, theirs.ending)
            np.testing.assert_allclose(mine.log_probs, theirs.log_probs, atol=1e-3)


def test_the_folder_is_a_model_with_its_figures(exported: Exported) -> None:
    files = {str(path.relative_to(exported.out)) for path in exported.out.rglob("*") if path.is_file()}
    int8 = {"int8.safetensors", "onnx/int8/encoder.onnx", "onnx/int8/step.onnx", "onnx/int8/probe.onnx"}
    fp32 = {"onnx/fp32/encoder.onnx", "onnx/fp32/step.onnx", "onnx/fp32/weights.bin"}
    assert files == {"config.json", "vocabulary.txt", "README.md", "export.json"} | int8 | fp32
    notes = json.loads((exported.out / "export.json").read_text())
    assert {"numpy", "onnx", "recoversat", "torch"} == set(notes["versions"])
    for precision, own in (("int8", int8), ("fp32", fp32)):
        noted = notes["precisions"][precision]
        assert noted["files"] == {name: (exported.out / name).stat().st_size for name in own}
        assert noted["bytes"] == sum(noted["files"].values())
    checked = {(one["precision"], one["segments"]): one["same"] for one in notes["checks"]["tokens"]}
    assert {key: same for key, same in checked.items() if key[0] == "fp32"} == {("fp32", k): 32 for k in (1, 2, 4)}
    assert all(checked["int8", k] < 32 for k in (1, 2, 4))  # else this model would show no difference at all
    assert notes["checks"]["sample"] == "validation text"


def test_what_int8_costs_is_measured_stored_and_printed(exported: Exported) -> None:
    notes = json.loads((exported.out / "export.json").read_text())["checks"]["bleu"]
    written = [t.text for t in Translator(exported.out).translate(lines_of(exported))]
    bleu = BLEU().corpus_score(written, [exported.references.read_text().splitlines()]).score
    assert (notes["torch"], notes["sentences"]) == (pytest.approx(100), 60)
    assert notes["exported"] == pytest.approx(bleu)
    assert notes["change"] == pytest.approx(bleu - 100)
    line = f"BLEU 100.00 -> {bleu:.2f} ({bleu - 100:+.2f}) on 60 validation sentences"
    assert f"int8: {line}" in exported.printed
    card = (exported.out / "README.md").read_text()
    assert line in card
    assert "- corpus: made up" in card
    assert "96 of 96 sample translations the same" in card


def test_a_loss_is_refused_and_nothing_is_written(exported: Exported, tmp_path: Path, recoversat: Run) -> None:
    valid = ["--valid-src", exported.text, "--valid-tgt", exported.references]
    refused = recoversat("export", exported.model, tmp_path / "out", *valid, expect=2)
    assert "more than 0.3; export fp32 alone, or pass --force" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    text = ValidationText(lines_of(exported), exported.references.read_text().splitlines())
    export_folder(exported.model, tmp_path / "out", ("fp32",), text)  # what was not asked for costs nothing
    assert [path.name for path in (tmp_path / "out" / "onnx").iterdir()] == ["fp32"]


def test_another_model_under_the_same_name_is_noticed(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recoversat.export import folder as exporting

    def spoiling(write: Callable[..., Any]) -> Callable[..., Any]:
        def spoil(weights: dict[str, np.ndarray], *others: object) -> Any:
            return write({n: w * 1.5 if n == "encoder.norm.weight" else w for n, w in weights.items()}, *others)

        return spoil

    for name in ("export_fp32", "quantised"):
        monkeypatch.setattr(exporting, name, spoiling(getattr(exporting, name)))
    with pytest.raises(
        UserError, match=r"is not the original \(fp32, K = 1: same tokens .* of 32 .*nothing was written"
    ):
        export_folder(exported.model, tmp_path / "out", ("fp32",), None)
    with pytest.raises(UserError, match=r"int8: encoder\.norm\.weight is not what was exported; nothing was written"):
        export_folder(exported.model, tmp_path / "out", ("int8",), None)
    assert list(tmp_path.iterdir()) == []


def test_without_validation_text_random_ids_are_compared_and_it_says_so(
    exported: Exported, tmp_path: Path, recoversat: Run
) -> None:
    done = recoversat("export", exported.model, tmp_path / "out")
    assert "fp32, K = 4: same tokens as torch in 32 of 32 sentences (random ids, as there is no valid" in done.stderr
    assert "int8: BLEU not measured: no validation text was given" in done.stderr
    assert "int8: scales were measured on 64 sentences (random ids, as there is no validation text)" in done.stderr
    assert "BLEU not measured" in (tmp_path / "out" / "README.md").read_text()
    assert "measured on 64 sentences (random ids" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_the_command_writes_the_same_text_and_trace(
    exported: Exported, segments: int, tmp_path: Path, recoversat: Run
) -> None:
    def translate(model: Path, name: str) -> tuple[str, list[dict[str, object]]]:
        trace = tmp_path / name
        options = ["--segments", segments, "--compute-type", "float32", "--trace", trace, "--force", "1:2=w5 w6"]
        done = recoversat("translate", "--model", model, *options, "--device", "cpu", stdin="\n".join(longer))
        return done.stdout, [json.loads(line) for line in trace.read_text().splitlines()]

    # a word at the second position can only be forced where the first one does not end the segment
    tried = Translator(exported.model, device="cpu").translate(lines_of(exported), segments=segments)
    longer = [one.source for one in tried if len(one.segments[0].ids) > 1]
    assert len(longer) > 10
    (wanted, wanted_trace), (got, got_trace) = translate(exported.model, "torch"), translate(exported.out, "onnx")
    assert got == wanted
    assert len(got_trace) == len(wanted_trace) > 100
    assert_close(wanted_trace, got_trace)


def assert_close(one: object, other: object) -> None:
    """Compare JSON: numbers nearly, everything else exactly."""
    if isinstance(one, float):
        assert one == pytest.approx(other, abs=2e-3)
    elif isinstance(one, list) and isinstance(other, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_close(mine, theirs)
    elif isinstance(one, dict) and isinstance(other, dict):
        assert list(one) == list(other)
        assert_close(list(one.values()), list(other.values()))
    else:
        assert one == other


@pytest.mark.parametrize("max_memory", [None, 1, 400_000])
def test_translator_gives_the_same_scores_and_beams(exported: Exported, max_memory: int | None) -> None:
    reference = Translator(exported.model, device="cpu")
    fast = Translator(exported.out, compute_type="float32", intra_threads=1, max_memory=max_memory)
    lines = lines_of(exported)
    for k in (1, 2, 4):
        assert_same(reference.translate(lines, segments=k), fast.translate(lines, segments=k))
    beams = reference.translate(lines, segments=1, beam=4)
    assert_same(beams, fast.translate(lines, segments=1, beam=4))
    assert [t.text for t in beams] != [t.text for t in reference.translate(lines, segments=1)]


def test_given_translations_get_the_same_scores(exported: Exported) -> None:
    sources, targets = lines_of(exported), lines_of(exported)[::-1]
    backwards = exported.text.with_name("backwards")
    backwards.write_text("".join(f"{line}\n" for line in targets))
    for k in (1, 2):
        printed = score_lines(exported.model, exported.text, backwards, segments=k, jsonl=False, device="cpu")
        wanted = [float(line) for line in printed]
        for translator in both(exported):
            scored = translator.score_batch(sources, targets, segments=k)
            assert [one.text for one in scored] == targets
            sums = [sum(p for segment in one.segments for p in segment.log_probs) for one in scored]
            np.testing.assert_allclose(sums, wanted, atol=2e-3)
        printed = score_lines(exported.out, exported.text, backwards, segments=k, jsonl=True, device="cpu")
        scored = Translator(exported.out).score_batch(sources, targets, segments=k, batch_size=7)
        for line, one in zip(map(json.loads, printed), scored, strict=True):
            log_probs = [p for segment in one.segments for p in segment.log_probs]
            np.testing.assert_allclose(line["token_log_probs"], log_probs, atol=2e-3)
            assert len(line["tokens"]) == len(line["token_log_probs"])
            assert line["tokens"].count("</s>") == k
            assert line["log_prob"] == pytest.approx(sum(log_probs), abs=2e-3)
    with pytest.raises(UserError, match="pair 2: its source is empty"):
        both(exported)[1].score_batch(["w1", ""], ["w2", "w3"])


def test_a_given_translation_stays_as_it_is(exported: Exported) -> None:
    translator = Translator(exported.out)
    translator.set_decoding(cut_loops=True, join_overlaps=True)
    (scored,) = translator.score_batch(["w1 w2"], ["w5 w5 w5 w5 w5 w5"], segments=2)
    assert scored.text == "w5 w5 w5 w5 w5 w5"
    assert len(scored.ids) == 6


def test_what_the_vocabulary_lacks_has_no_score(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("w1\nw2\n")
    (tmp_path / "tgt").write_text("w1\nnever\n")
    files = {"segments": 1, "jsonl": False, "device": "cpu"}
    with pytest.raises(UserError, match="tgt, line 2: holds something that this model cannot write"):
        list(score_lines(exported.out, tmp_path / "src", tmp_path / "tgt", **files))  # type: ignore[arg-type]


def test_a_file_is_translated_whole(exported: Exported, tmp_path: Path) -> None:
    translator = Translator(exported.out)
    translator.translate_file(exported.text, tmp_path / "out.txt", segments=2)
    wanted = [t.text for t in translator.translate_iterable(lines_of(exported), segments=2)]
    assert (tmp_path / "out.txt").read_text().splitlines() == wanted


def test_it_translates_where_torch_is_absent(exported: Exported, tmp_path: Path, recoversat: Run) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK_TORCH)
    without = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = recoversat("translate", "--model", exported.out, exported.text, "--threads", 1, env=without)
    wanted = [t.text for t in Translator(exported.out, intra_threads=1).translate_iterable(lines_of(exported))]
    assert done.stdout.splitlines() == wanted
    refused = recoversat("translate", "--model", exported.model, stdin="w1\n", env=without, expect=2)
    assert "holds torch weights: pip install 'recoversat[train]', or export it" in refused.stderr
    export_folder(exported.model, tmp_path / "int8", ("int8",), None)
    for more in (["--device", "cuda"], ["--compute-type", "float32"]):
        refused = recoversat("translate", "--model", tmp_path / "int8", *more, stdin="w1\n", env=without, expect=2)
        assert "needs torch: pip install 'recoversat[train]'" in refused.stderr
    refused = recoversat("export", exported.model, tmp_path / "out", env=without, expect=2)
    assert "torch is missing: pip install 'recoversat[train]'" in refused.stderr


def test_what_cannot_be_exported_is_refused_with_a_reason(exported: Exported, tmp_path: Path) -> None:
    for out in (exported.model, exported.model.parent):
        with pytest.raises(UserError, match="holds the model that is exported"):
            export_folder(exported.model, out, ("fp32",), None, force=True)
    with pytest.raises(UserError, match=r"exists already; .* add --force"):
        export_folder(exported.model, exported.out, ("fp32",), None)
    with pytest.raises(UserError, match="no weights here"):
        export_folder(exported.out, tmp_path / "again", ("fp32",), None)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "vocabulary.txt").write_text("another\n")
    with pytest.raises(UserError, match="different vocabularies"):
        validation_text(exported.model, tmp_path / "corpus", None)
    with pytest.raises(UserError, match="--precision int4: there are fp32 and int8"):
        precisions_of(["int4"], exported.model)


def test_force_replaces_an_older_export_whole(exported: Exported, tmp_path: Path) -> None:
    out = shutil.copytree(exported.out, tmp_path / "out")
    (out / "left over").write_text("x")
    export_folder(exported.model, out, ("fp32",), None, force=True)
    assert not (out / "left over").exists()
    assert [path.name for path in (out / "onnx").iterdir()] == ["fp32"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_corpus_gives_its_validation_text(exported: Exported, tmp_path: Path, recoversat: Run) -> None:
    files = ["--src", exported.text, "--tgt", exported.text]
    valid = ["--valid-src", exported.text, "--valid-tgt", exported.text]
    recoversat(
        "prepare",
        *files,
        *valid,
        "--out",
        tmp_path / "c",
        "--tokenizer-from",
        exported.model,
        "--set",
        "data.tokenizer=bpe",
    )
    text = validation_text(exported.model, tmp_path / "c", None)
    assert text is not None
    assert (text.src, text.tgt) == (lines_of(exported), lines_of(exported))


@pytest.mark.parametrize("with_text", [True, False])
def test_int8_always_has_scales_of_its_own(exported: Exported, tmp_path: Path, with_text: bool) -> None:
    out, printed = exported.out, exported.printed
    if not with_text:
        out = tmp_path / "out"
        printed = export_folder(exported.model, out, ("int8",), None).as_text()
    n, text = (60, "validation text") if with_text else (64, "random ids, as there is no validation text")
    said = f"int8: scales were measured on {n} sentences ({text})"
    assert said in printed
    assert said in (out / "README.md").read_text()
    assert json.loads((out / "export.json").read_text())["calibrated_on"] == n
    for graph in (out / "onnx" / "int8").glob("*.onnx"):
        assert b"DynamicQuantizeLinear" not in graph.read_bytes()  # which would follow each batch


@pytest.mark.parametrize("given", ["validation text", "nothing"])
def test_int8_does_not_depend_on_the_batch(exported: Exported, tmp_path: Path, given: str) -> None:
    out = exported.out
    if given == "nothing":
        out = tmp_path / "out"
        export_folder(exported.model, out, ("int8",), None)
    lines = exported.text.read_text().splitlines()
    for compute in ("int8", "int8_onnx"):
        translator = Translator(out, compute_type=compute, intra_threads=1)  # type: ignore[arg-type]
        for segments in (1, 4):
            together = translator.translate(lines, segments=segments, batch_size=60)
            alone = [translator.translate([line], segments=segments)[0] for line in lines]
            assert [t.ids for t in together] == [t.ids for t in alone]


def test_sizes_that_int8_does_not_take_are_refused_before_anything_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_tiny_model(tmp_path / "model", d_model=48, n_heads=3)
    with pytest.raises(UserError, match=r"int8 is for models .* not 48, 32 and 16; fp32 takes any"):
        export_folder(model, tmp_path / "out", ("fp32", "int8"), None)
    assert precisions_of(["int8"], model) == ("int8",)
    assert capsys.readouterr().err == ""
    assert precisions_of(None, model) == ("fp32",)  # what was not asked for is left out
    assert "note: fp32 alone is exported: int8 is for models" in capsys.readouterr().err
    export_folder(model, tmp_path / "out", ("fp32",), None)
    assert Translator(tmp_path / "out").engine.description["precision"] == "fp32"


def test_without_onnx_runtime_the_engine_in_cpp_translates(exported: Exported, tmp_path: Path, recoversat: Run) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK_TORCH.replace("BLOCKED = ()", 'BLOCKED = ("onnxruntime",)'))
    without = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ask = ["translate", "--model", exported.out, exported.text, "--threads", 1]
    refused = recoversat(*ask, "--compute-type", "int8_onnx", env=without, expect=2)
    assert "ONNX Runtime is missing: pip install 'recoversat[onnx]'" in refused.stderr
    if native_engine():
        wanted = [t.text for t in Translator(exported.out, intra_threads=1).translate_iterable(lines_of(exported))]
        assert recoversat(*ask, env=without).stdout.splitlines() == wanted
    else:
        assert "ONNX Runtime is missing" in recoversat(*ask, env=without, expect=2).stderr
