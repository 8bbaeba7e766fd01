"""The trace: what docs/trace.md promises."""

import json
import math
import re
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.inference.translation import Segment, Translation
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import Job
from recoversat.pipeline.translate_files import translate_jobs
from recoversat.show.trace import N_TOP_TOKENS, trace_records

SCRIPT = {"a b": ["the house EOS", "in DEL", "c c c c c c"], "c": ["a EOS", "EOS", "b EOS"]}
DOCS = Path(__file__).parents[3] / "docs" / "trace.md"


@pytest.fixture
def records(scripted):
    (translation,) = scripted(SCRIPT).translate(["a b"], alternatives=2)
    return list(trace_records(translation, 3, forced={(0, 1)}))


def test_the_sentence_comes_first_with_all_its_segments(records):
    head = records[0]
    assert (head["type"], head["sentence"], head["source"]) == ("sentence", 3, "a b")
    assert (head["translation"], head["steps"]) == ("the house c c c c", 4)
    assert [(s["text"], s["length"], s["ending"]) for s in head["segments"]] == [
        ("the house", 2, "eos"), ("in", 1, "del"), ("c c c c", 4, "cut"),
    ]  # fmt: skip
    assert head["segments"][0]["score"] == pytest.approx(-0.2)  # mean of -0.1, -0.2, -0.3


def test_every_step_lists_the_segments_that_were_still_open(records):
    steps = records[1:]
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    assert [[token["segment"] for token in step["tokens"]] for step in steps] == [[1, 2, 3], [1, 2, 3], [1, 3], [3]]
    assert [token["piece"] for token in steps[1]["tokens"]] == ["house", "<del>", "c"]
    assert [token["ending"] for token in steps[1]["tokens"]] == [None, "del", None]
    assert [token["piece"] for token in steps[2]["tokens"]] == ["</s>", "c"]
    assert steps[3]["tokens"][0]["ending"] == "cut"


def test_probabilities_and_alternatives_are_those_of_decoding(records):
    token = records[2]["tokens"][0]
    assert token["probability"] == pytest.approx(math.exp(-0.2), abs=1e-6)
    assert [a["piece"] for a in token["alternatives"]] == ["house", "cham@@"]
    assert token["alternatives"][1]["probability"] == pytest.approx(math.exp(-1.2), abs=1e-6)


def test_forced_tokens_are_marked_and_no_others(records):
    forced = [(t["segment"], t["position"]) for step in records[1:] for t in step["tokens"] if t["forced"]]
    assert forced == [(1, 2)]


def test_a_one_step_model_writes_all_positions_in_its_only_step():
    segment = Segment("a b", ["a", "b"], [5, 6], "eos", [-0.1, -0.2])
    _, *steps = trace_records(Translation("x", "a b", [segment], steps=1), 1)
    assert [[(t["position"], t["piece"]) for t in step["tokens"]] for step in steps] == [[(1, "a"), (2, "b")]]


def test_an_empty_line_has_no_steps():
    assert [record["type"] for record in trace_records(Translation("", ""), 1)] == ["sentence"]


def test_what_repairs_have_left_out_is_traced(scripted):
    translator = scripted({"a b": ["in the EOS", "the house EOS"]})
    translator.set_decoding(join_overlaps=True)
    sentence, *_ = trace_records(translator.translate(["a b"])[0], 1)
    assert (sentence["translation"], sentence["repairs"]) == ("in the house", ["join_overlaps"])
    assert [(one["overlap"], one["left_out"]) for one in sentence["segments"]] == [(0, []), (1, [1])]


def test_the_documented_fields_are_the_written_ones(records):
    text = DOCS.read_text(encoding="utf-8")
    documented = {
        name: set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
        for name, part in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    }
    assert documented["sentence"] == set(records[0])
    assert documented["segments"] == set(records[0]["segments"][0])
    assert documented["step"] == set(records[1])
    assert documented["tokens"] == set(records[1]["tokens"][0])
    assert documented["alternatives"] == set(records[1]["tokens"][0]["alternatives"][0])


def show(translator, tmp_path, text, show="segments", trace=None, force=()):
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    asked = TranslateOptions(batch_size=1, show=show, trace=trace, force=list(force))
    translate_jobs(translator, [Job([tmp_path / "in.txt"], tmp_path / "out.txt")], asked)
    return (tmp_path / "out.txt").read_text(encoding="utf-8")


def test_a_file_becomes_a_line_for_each_line_and_a_trace(scripted, tmp_path):
    shown = show(scripted(SCRIPT), tmp_path, "c\n\na b\n", trace=tmp_path / "trace.jsonl")
    assert shown == "[1] a EOS  [2] EOS  [3] b EOS\n\n[1] the house EOS  [2] ~~in DEL~~  [3] c c c c CUT\n"
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["sentence"] for line in lines if line["type"] == "sentence"] == [1, 2, 3]
    assert {len(t["alternatives"]) for line in lines if line["type"] == "step" for t in line["tokens"]} == {
        N_TOP_TOKENS
    }


def test_forcing_alone_prints_plain_text(scripted, tmp_path):
    assert show(scripted(SCRIPT), tmp_path, "c\n", None, force=["1:1=gas"]) == "gas b\n"
    assert show(scripted(SCRIPT), tmp_path, "c\n", force=["1:1=gas"]).startswith("[1] {gas} EOS")


def test_an_error_leaves_neither_output_nor_trace(scripted, tmp_path):
    with pytest.raises(UserError, match="line 1: nothing can be forced at segment 2, position 3"):
        show(scripted(SCRIPT), tmp_path, "c\n", trace=tmp_path / "trace.jsonl", force=["2:3=gas"])
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
