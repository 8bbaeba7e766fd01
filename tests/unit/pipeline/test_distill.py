"""Distillation decodes through the engine's own search, in batches that fit what a GPU captures."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from recoversat.cli import app
from recoversat.data.corpus import ParallelSentences, open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.cuda.capture import Capturer, Replay, rehearse
from recoversat.engines.cuda.engine import BATCHES, GraphEngine
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.model.transformer import Transformer
from recoversat.model.weights import load_model
from recoversat.pipeline.distill import _batches, _claim_shards, _settings, _teacher_engine, _translate
from recoversat.pipeline.options import DistillOptions
from recoversat.translator import Translator
from recoversat.vocab import N_SPECIAL
from tests.system.tiny_model import WORDS, tiny_config, write_sentences, write_tiny_model

CPU = torch.device("cpu")


class RehearsingCapturer(Capturer):
    """Warms functions up as a GPU would before it captures them."""

    def capture(self, function: Replay, state: torch.Tensor) -> Replay:
        rehearse(function, state)
        return function


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("distill") / "teacher")


def sources(count: int, longest: int = 40) -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [rng.integers(N_SPECIAL, N_SPECIAL + len(WORDS), n).tolist() for n in rng.integers(1, longest + 1, count)]


def job_of(teacher: Path, beam: int = 4, batch_tokens: int = 256) -> DistillOptions:
    return DistillOptions(teacher, teacher, teacher, beam, batch_tokens=batch_tokens, device="cpu")


def model_of(teacher: Path) -> Transformer:
    model, _ = load_model(teacher)
    assert isinstance(model, Transformer)
    return model


@pytest.mark.parametrize("beam", [1, 4])
def test_captured_graphs_write_what_the_reference_writes(
    teacher: Path, monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    monkeypatch.setattr("recoversat.engines.cuda.engine.Capturer", RehearsingCapturer)
    graphs = GraphEngine(model_of(teacher), CPU, torch.float32)
    engines: list[Engine] = [TorchEngine(model_of(teacher), CPU), graphs]
    counted: list[int] = []
    job, texts = job_of(teacher, beam), sources(90)
    expected, got = (_translate(job, engine, texts, counted.append) for engine in engines)
    assert got == expected
    assert any(expected)
    assert sum(counted) == 2 * len(texts)
    assert graphs.buckets


def test_every_batch_but_the_last_fills_what_a_gpu_captures() -> None:
    texts = sources(500)
    batches = list(_batches(texts, 300))
    assert sorted(i for batch in batches for i in batch) == list(range(500))
    assert all(len(batch) in BATCHES for batch in batches[:-1])
    assert all(len(batch) * len(texts[batch[0]]) <= 300 for batch in batches)
    assert all(2 * len(batch) * len(texts[batch[0]]) > 300 for batch in batches[:-1])
    assert [len(texts[batch[0]]) for batch in batches] == sorted((len(texts[b[0]]) for b in batches), reverse=True)


def test_a_sentence_longer_than_a_batch_is_translated_alone() -> None:
    assert list(_batches([[5] * 9, [5], [5] * 20], 8)) == [[2], [0], [1]]


@pytest.mark.parametrize("shortlist", [True, False])
def test_a_teacher_does_without_its_shortlist_where_it_is_set_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortlist: bool
) -> None:
    teacher = write_tiny_model(tmp_path / "teacher")
    settings = json.loads((teacher / "config.json").read_text())
    settings["decode"]["shortlist"] = shortlist
    (teacher / "config.json").write_text(json.dumps(settings))
    engine, asked = TorchEngine(model_of(teacher), CPU), []

    def search(sources: Sources, beam: int, options: Options) -> list[Decoded]:
        asked.append(options.shortlist)
        return TorchEngine.search(engine, sources, beam, options)

    monkeypatch.setattr(engine, "search", search)
    _translate(job_of(teacher), engine, sources(3), lambda count: None)
    assert set(asked) == {shortlist}


def test_a_one_step_model_cannot_teach(tmp_path: Path) -> None:
    nat = write_tiny_model(tmp_path / "nat", kind="nat")
    with pytest.raises(UserError, match="of kind 'nat' cannot teach"):
        _teacher_engine(job_of(nat))


@pytest.fixture(scope="module")
def corpus(teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for seed, name in enumerate(("src", "tgt")):
        write_sentences(folder / name, 40, seed)
    settings = tiny_config().data.model_copy(update={"max_ratio": 99.0})
    prepare(TextPairs(folder / "src", folder / "tgt"), folder / "corpus", settings, tokenizer_from=teacher, quiet=True)
    return folder / "corpus"


def distilled(teacher: Path, corpus: Path, out: Path, *more: str) -> ParallelSentences:
    done = CliRunner().invoke(app, ["distill", str(teacher), str(corpus), "--out", str(out), "--device", "cpu", *more])
    assert done.exit_code == 0, done.output
    return open_corpus(out).train


def targets(pairs: ParallelSentences) -> list[list[int]]:
    return [pairs.tgt[i].tolist() for i in range(len(pairs))]


def test_an_exported_model_teaches_as_the_one_it_was_exported_from(teacher: Path, corpus: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["export", str(teacher), str(tmp_path / "exported"), "--corpus", str(corpus)])
    assert run.exit_code == 0, run.output
    exported, beam = tmp_path / "exported", ("--beam", "1")
    expected = targets(distilled(teacher, corpus, tmp_path / "torch", *beam))
    lines = (corpus.parent / "src").read_text().splitlines()
    written = Translator(teacher, device="cpu").translate(lines, segments=1, repairs=False)
    assert expected == [one.ids for one in written if one.ids and one.segments[0].ending != "cut"]
    assert len(expected) < len(lines)
    assert targets(distilled(exported, corpus, tmp_path / "fp32", *beam, "--compute-type", "float32")) == expected
    precisions = {
        name: _teacher_engine(replace(job_of(exported), compute_type=name)).description["precision"]
        for name in ("default", "int8", "float32")
    }
    assert precisions == {"default": "int8", "int8": "int8", "float32": "fp32"}
    assert len(distilled(exported, corpus, tmp_path / "int8", *beam)) > 5
    begun = replace(job_of(exported, 1), corpus=corpus, out=tmp_path / "mixed")
    refused = pytest.raises(UserError, match="other settings")
    for job, outcome in [(replace(begun, compute_type="float32"), nullcontext()), (begun, refused)]:
        with outcome:
            _claim_shards(job, _settings(job, open_corpus(corpus)))


def test_a_teacher_of_both_directions_needs_sources_that_say_into_which(
    teacher: Path, corpus: Path, tmp_path: Path
) -> None:
    for source, file, section in [(teacher, "config.json", "data"), (corpus, "corpus.json", "config")]:
        described = json.loads((shutil.copytree(source, tmp_path / source.name) / file).read_text())
        described[section] |= {"both_directions": True, "tokenizer": "sentencepiece"}
        (tmp_path / source.name / file).write_text(json.dumps(described))
    for own, other in [(tmp_path / teacher.name, corpus), (teacher, tmp_path / corpus.name)]:
        run = ["distill", str(own), str(other), "--out", str(tmp_path / "out"), "--beam", "1", "--device", "cpu"]
        done = CliRunner().invoke(app, run)
        assert isinstance(done.exception, UserError)
        assert "prepare it again with --set data.src_lang=en" in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [[], ["--shard", "1/2"]])
@pytest.mark.parametrize("compute", ["int9", "int8_native"])
def test_a_teacher_that_cannot_be_loaded_leaves_nothing_behind(
    teacher: Path, corpus: Path, tmp_path: Path, compute: str, more: list[str]
) -> None:
    asked = ["distill", str(teacher), str(corpus), "--out", str(tmp_path / "out"), "--device", "cpu", *more]
    run = CliRunner().invoke(app, [*asked, "--compute-type", compute])
    assert isinstance(run.exception, UserError)
    assert not list(tmp_path.iterdir())


def test_references_are_kept_beside_what_was_written(teacher: Path, corpus: Path, tmp_path: Path) -> None:
    alone = distilled(teacher, corpus, tmp_path / "alone", "--beam", "1")
    both = distilled(teacher, corpus, tmp_path / "both", "--beam", "1", "--with-references")
    given = open_corpus(corpus).train
    assert len(both) == len(alone) + len(given)
    for side in ("src", "tgt"):
        expected = [
            *(getattr(alone, side)[i] for i in range(len(alone))),
            *(getattr(given, side)[i] for i in range(len(given))),
        ]
        assert all(np.array_equal(getattr(both, side)[i], one) for i, one in enumerate(expected))
