"""`recoversat evaluate` without weights: what is translated, kept, used again and reported."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.errors import UserError
from recoversat.files.model_folder import WEIGHTS, write_description
from recoversat.measuring.own import OwnSystem
from recoversat.measuring.quality import run
from recoversat.measuring.quality.results import EvaluationPlan
from recoversat.measuring.quality.run import Request, run_evaluation
from recoversat.measuring.specs import parse_system, parse_test

SCRIPT = {
    "a": ["the house EOS", "house DEL", "in EOS"],
    "b": ["gas gas gas gas gas", "EOS", "in a EOS"],
    "c": ["c EOS", "b EOS", "a EOS"],
}
REFERENCES = ["the house in", "gas in a", "c b a"]


@pytest.fixture
def folder(tmp_path, monkeypatch, scripted, tokenizer):
    """Two test sets and a `model` that is played by the scripted translator."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.src").write_text("a\n\nb\nc\n")
        (tmp_path / f"{name}.ref").write_text("\n".join([REFERENCES[0], "", *REFERENCES[1:]]) + "\n")
    translator = scripted(SCRIPT)
    (tmp_path / "model").mkdir()
    write_description(tmp_path / "model", translator.config, tokenizer, {})
    (tmp_path / "model" / WEIGHTS).write_bytes(b"weights")
    return tmp_path


@pytest.fixture
def drawn():
    """Draw plots, which takes most of the time of an evaluation; else there are none."""


@pytest.fixture(autouse=True)
def _undrawn(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(run, "quality_plots", lambda results, test_sets: ())


@pytest.fixture
def engine(folder, monkeypatch, scripted):
    """Count the steps the model takes, and let tests change its settings."""
    translator = scripted(SCRIPT)
    monkeypatch.setattr(run, "load_system", lambda spec, *_: OwnSystem(spec, folder / "model", translator))
    return translator.engine


def request(folder, *systems, tests=("one",), latency=0, **plan):
    specs = [parse_test(f"{name}={name}.src,{name}.ref") for name in tests]
    plan = EvaluationPlan(n_samples=10, **plan)
    return Request([parse_system(text) for text in systems], specs, folder / "report", plan, 2, latency=latency)


def record(folder, system="m"):
    lines = (folder / "report" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return next(r for r in map(json.loads, lines) if r["system"] == system)


def test_everything_a_model_tells_reaches_the_report(folder, engine, drawn):
    evaluated = run_evaluation(request(folder, "m=model", at_system="m"))
    (result,) = evaluated.results
    assert result.output.hypotheses == ["the house in", "", "gas gas gas gas in a", "c b a"]
    # lines: 3 steps; empty; cut off after ceil(1 / 3) + 3 steps; 2 steps
    assert result.steps.counts == {0: 1, 2: 1, 3: 1, 4: 1}
    assert (result.segments.total, result.segments.deleted_share, result.segments.cut_share) == (9, 1 / 9, 1 / 9)
    assert result.output.scores[0] == pytest.approx(-(0.1 + 0.2 + 0.3 + 0.1 + 0.2) / 5)  # the deleted one left out
    assert result.errors.repeated == 3 / 12  # three of the four gas, among 3 + 6 + 3 tokens
    assert result.confidence is not None
    assert record(folder)["signature"]["engine"] == "scripted"
    text = evaluated.as_text()
    assert "**Results**" in text
    assert "**Confidence" in text
    page = (folder / "report" / "report.html").read_text(encoding="utf-8")
    assert "Confidence: does it tell good" in page
    assert page.count("<svg ") == 3


def test_what_a_model_wrote_is_used_again_until_something_changes(folder, engine):
    asked = request(folder, "m=model")
    run_evaluation(asked)
    assert engine.batches
    engine.batches.clear()
    again = run_evaluation(asked)
    assert engine.batches == []
    assert again.results[0].output.hypotheses[3] == "c b a"
    before = record(folder)["signature"]["weights"]
    (folder / "model" / WEIGHTS).write_bytes(b"other weights")
    run_evaluation(asked)
    assert engine.batches
    assert record(folder)["signature"]["weights"] != before


def test_a_changed_test_set_is_translated_again(folder, engine):
    run_evaluation(request(folder, "m=model"))
    engine.batches.clear()
    (folder / "one.src").write_text("c\n\nb\na\n")
    assert run_evaluation(request(folder, "m=model")).results[0].output.hypotheses[0] == "c b a"
    assert engine.batches


def test_a_damaged_output_is_made_anew(folder, engine):
    run_evaluation(request(folder, "m=model"))
    saved = folder / "report" / "outputs" / "one" / "m.jsonl"
    whole = saved.read_text(encoding="utf-8")
    saved.write_text(whole[:-20], encoding="utf-8")
    run_evaluation(request(folder, "m=model"))
    assert saved.read_text(encoding="utf-8") == whole


def test_only_the_new_system_of_a_repeated_evaluation_is_run(folder, engine):
    run_evaluation(request(folder, "m=model", tests=("one", "two")))
    engine.batches.clear()
    evaluated = run_evaluation(request(folder, "m=model", "n=model", tests=("one", "two")))
    names = [(r.output.test_set, r.output.name) for r in evaluated.results]
    assert names == [("one", "m"), ("one", "n"), ("two", "m"), ("two", "n")]
    steps_for_one_system = len(engine.batches)
    engine.batches.clear()
    run_evaluation(replace(request(folder, "o=model", tests=("one", "two")), out=folder / "fresh"))
    assert len(engine.batches) == steps_for_one_system


def test_saved_outputs_are_counted_in_the_sub_words_of_a_given_model(folder, engine):
    run_evaluation(request(folder, "m=model", at_system="m"))
    wanted = record(folder)["errors"]
    saved = replace(request(folder, "m=report/outputs/{test}/m.jsonl", at_system="m"), out=folder / "again")
    (bare,) = run_evaluation(saved).results
    (counted,) = run_evaluation(replace(saved, subwords=folder / "model")).results
    assert bare.errors.mis is None  # the references are not known in sub-words
    assert (counted.errors.rep, counted.errors.mis) == (wanted["rep"], wanted["mis"])


def test_every_timed_sentence_is_translated_once_before_the_clock_starts(folder, engine, monkeypatch):
    said = []
    clock = SimpleNamespace(perf_counter=lambda: said.append(len(engine.batches)) or len(said))
    monkeypatch.setattr("recoversat.measuring.quality.translating.time", clock)
    run_evaluation(request(folder, "m=model"))
    engine.batches.clear()
    run_evaluation(request(folder, "m=model", latency=2))
    before, after = said
    assert before == after - before  # as many steps as are timed: an engine prepares for each new length


def test_latency_is_measured_once_without_translating_again(folder, engine):
    run_evaluation(request(folder, "m=model"))
    assert record(folder)["latency_ms"] is None
    engine.batches.clear()
    run_evaluation(request(folder, "m=model", latency=2))
    assert set(engine.batches) == {1}  # batch 1 only: the test set itself was not translated again
    first = record(folder)
    assert first["latency_ms"] > 0
    assert first["signature"]["latency_sentences"] == 2
    engine.batches.clear()
    run_evaluation(request(folder, "m=model", latency=2))
    assert engine.batches == []
    assert record(folder)["latency_ms"] == first["latency_ms"]
    run_evaluation(request(folder, "m=model", latency=3))
    assert engine.batches


def test_a_saved_output_is_a_system_of_its_own(folder, engine):
    run_evaluation(request(folder, "m=model"))
    first = record(folder)
    again = replace(request(folder, "m=report/outputs/{test}/m.jsonl", at_system="m"), out=folder / "second")
    (result,) = run_evaluation(again).results
    assert result.quality["bleu"].value == first["bleu"]["value"]
    assert result.steps.mean == first["steps"]["mean"]
    assert result.errors.repeated > 0  # recomputed from the tokens in the file


@pytest.mark.usefixtures("engine")
def test_plain_files_stand_beside_models(folder):
    (folder / "out.one").write_text("the house in\n\ngas in a\nc b a\n")
    evaluated = run_evaluation(request(folder, "m=model", "o=out.{test}", baseline="o"))
    plain = evaluated.results[1]
    assert (plain.output.name, plain.steps, plain.confidence) == ("o", None, None)
    assert evaluated.results[0].comparisons[0].baseline == "o"
    assert not (folder / "report" / "outputs" / "one" / "o.jsonl").exists()


def test_a_short_file_names_the_line(folder):
    (folder / "out.de").write_text("the house in\n")
    with pytest.raises(UserError, match=r"out\.de, line 2: missing; the file has 1 lines"):
        run_evaluation(request(folder, "o=out.de"))


def test_rep_and_mis_without_any_tokenizer_are_refused(folder):
    (folder / "out.de").write_text("a\n\nb\nc\n")
    with pytest.raises(UserError, match="sub-word tokens are not known"):
        run_evaluation(request(folder, "o=out.de", at_system="o"))


def test_tokenised_bleu_needs_tokenised_text_and_says_so_before_translating(folder, engine):
    evaluated = run_evaluation(request(folder, "m=model", more_metrics=["tokenised_bleu"]))
    assert evaluated.results[0].quality["tokenised_bleu"].value > 0
    (folder / "out.de").write_text("a\n\nb\nc\n")
    with pytest.raises(UserError, match="tokenised_bleu: these systems do not write tokenised text"):
        run_evaluation(request(folder, "o=out.de", more_metrics=["tokenised_bleu"]))


def test_no_plots_without_matplotlib(folder, monkeypatch, capsys, drawn):
    (folder / "out.de").write_text("a\n\nb\nc\n")
    monkeypatch.setattr(run, "find_spec", lambda name: None)
    assert not (run_evaluation(request(folder, "o=out.de")).page.parent / "plots").exists()
    assert "pip install 'recoversat[train]'" in capsys.readouterr().err


@pytest.mark.usefixtures("engine")
def test_the_command_tells_at_from_baseline(folder):
    (folder / "out.one").write_text("the house in\n\ngas in a\nc b a\n")
    options = ["--system", "m=model", "--system", "o=out.{test}", "--test", "one=one.src,one.ref", "--out", "report"]
    done = CliRunner().invoke(app, ["evaluate", *options, "--at", "m", "--baseline", "o", "--samples", "2"])
    assert done.exit_code == 0, done.output
    model, plain = record(folder, "m"), record(folder, "o")
    assert model["errors"]["relative_to"] == "m"
    assert {one["baseline"] for one in model["comparisons"]} == {"o"}
    assert plain["comparisons"] == []


def test_the_command_prints_its_tables_as_latex(folder):
    options = ["--system", "a_b=one.ref", "--test", "one=one.src,one.ref", "--out", "tex"]
    done = CliRunner().invoke(app, ["evaluate", *options, "--format", "latex"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("\\begin{table}\n")
    assert r"one & a\_b & " in done.stdout
    assert (folder / "tex" / "report.md").read_text(encoding="utf-8").count("| one") == 1  # the report stays as it is
    wrong = CliRunner().invoke(app, ["evaluate", *options, "--format", "word"])
    assert wrong.exit_code == 2
    assert "markdown" in wrong.output
