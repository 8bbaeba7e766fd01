"""Sweep files: what varies, under which names, with which settings."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from recoversat.config import load_config
from recoversat.errors import UserError
from recoversat.measuring.quality.paper import DYNAMIC_TERMINATION, SEGMENT_DELETION
from recoversat.pipeline.options import SweepOptions
from recoversat.pipeline.sweep.run import _job, _runs, _teacher
from recoversat.pipeline.sweep.variants import read_sweep

CONFIGS = Path(__file__).parents[4] / "configs"


def sweep_of(tmp_path, text):
    (tmp_path / "sweep.yaml").write_text(text, encoding="utf-8")
    return read_sweep(tmp_path / "sweep.yaml")


def test_p_is_constant_unless_it_is_written_as_falling(tmp_path):
    variants = sweep_of(tmp_path, "vary: {p: [0, 0.5, 1, 1->0, 1.0 → 0]}").variants
    assert [(v.label, v.name) for v in variants] == [
        ("0", "p=0"), ("0.5", "p=0.5"), ("1", "p=1"), ("1->0", "p=1to0"), ("1->0", "p=1to0"),
    ]  # fmt: skip
    trains = [load_config(overrides=list(v.overrides)).train for v in variants]
    assert [(t.random_prob, t.anneal) for t in trains] == [
        (0, False), (0.5, False), (1, False), (1, True), (1, True),
    ]  # fmt: skip


def test_every_symbol_sets_its_key(tmp_path):
    text = """
    vary: {q: [0.3], K: [5], cut_at: [word], train_on_copies: [true], train.seed: [7]}
    variants: {wide: {model.d_model: 64, model.n_heads: 2}}
    """
    variants = sweep_of(tmp_path, text).variants
    names = ["q=0.3", "K=5", "cut_at=word", "train_on_copies=true", "train.seed=7", "wide"]
    assert [variant.name for variant in variants] == names
    config = load_config(overrides=[o for variant in variants for o in variant.overrides])
    train = config.train
    assert (train.repeat_prob, train.segments, train.cut_at, train.train_on_copies, train.seed) == (
        0.3, 5, "word", True, 7,
    )  # fmt: skip
    assert (config.model.d_model, config.model.n_heads) == (64, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config: {}", "nothing varies; add e.g."),
        ("vari: {p: [0]}", "vari: no such key; did you mean vary?"),
        ("vary: {p: 0}", "vary: p: expected a list of values"),
        ("vary: {p: [0->1]}", "write a number from 0 to 1, or 1->0"),
        ("vary: {cutat: [word]}", "vary: cutat: no such setting; did you mean cut_at?"),
        ("vary: {zzz: [1]}", "there are p, q, K"),
        ("[1, 2]", "the file: expected keys with values"),
        ("vary: [p]", "vary: expected keys with values"),
        ("vary: {p: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, text, message):
    with pytest.raises(UserError) as error:
        sweep_of(tmp_path, text)
    assert message in str(error.value)
    assert "sweep.yaml" in str(error.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"none\.yaml: no such file"):
        read_sweep(tmp_path / "none.yaml")


def runs_of(tmp_path, text, **options):
    sweep = sweep_of(tmp_path, text)
    (tmp_path / "base.yaml").write_text("train: {segments: 10}")
    return _runs(sweep.variants, tmp_path, SweepOptions(Path("file"), tmp_path, **options))


def test_variants_with_the_same_settings_share_a_run(tmp_path):
    run_of, configs = runs_of(tmp_path, "vary: {p: [0, 1->0], q: [0.5, 1], K: [10, 2]}")
    assert {variant.name: run for variant, run in run_of.items()} == {
        "p=0": "p=0", "p=1to0": "p=1to0", "q=0.5": "p=1to0", "q=1": "q=1", "K=10": "p=1to0", "K=2": "K=2",
    }  # fmt: skip
    assert list(configs) == ["p=0", "p=1to0", "q=1", "K=2"]


def test_command_line_settings_hold_for_all_variants_but_what_varies_wins(tmp_path):
    settings = ["train.steps=7", "train.repeat_prob=0.9"]
    _, configs = runs_of(tmp_path, "vary: {q: [0, 1]}", settings=settings, preset="small")
    assert [(c.train.steps, c.train.repeat_prob) for c in configs.values()] == [(7, 0), (7, 1)]
    assert {c.preset for c in configs.values()} == {"small"}


def test_two_variants_of_one_name_are_refused(tmp_path):
    with pytest.raises(UserError, match="two variants are named a-b"):
        runs_of(tmp_path, "variants: {a-b: {train.seed: 5}, a b: {train.seed: 6}}")


def test_a_setting_that_does_not_exist_is_found_before_any_training(tmp_path):
    with pytest.raises(UserError, match=r"train\.sed: no such key; did you mean seed"):
        runs_of(tmp_path, "vary: {train.sed: [1]}")


def test_every_run_starts_from_the_teacher_as_asked_or_says_what_is_missing(tmp_path):
    sweep = sweep_of(tmp_path, "vary: {q: [0]}\ninit_from: teacher")
    corpus = SimpleNamespace(folder=Path("corpus"))
    for options, expected in (
        (SweepOptions(Path("file"), tmp_path), ["--init-from", "teacher"]),
        (SweepOptions(Path("file"), tmp_path, init_from=Path("mine")), ["--init-from", "mine"]),
        (SweepOptions(Path("file"), tmp_path, init_decoder=True), ["--init-from", "teacher", "--init-decoder"]),
    ):
        job = _job("q=0", load_config(), tmp_path, corpus, _teacher(sweep, options), options)
        assert job.command[job.command.index("--init-from") :] == expected
    with pytest.raises(UserError, match="add --init-from TEACHER"):
        _teacher(sweep_of(tmp_path, "vary: {q: [0]}"), SweepOptions(Path("file"), tmp_path, init_decoder=True))


def test_the_shipped_sweep_is_the_papers_tables_3_and_4(tmp_path):
    sweep = read_sweep(CONFIGS / "ablations.yaml")
    for study in (DYNAMIC_TERMINATION, SEGMENT_DELETION):
        labels = [variant.label for variant in sweep.variants if variant.axis == study.symbol]
        assert labels == [label for label in study.rows if label != "NAT"]
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(sweep.config))
    run_of, configs = _runs(sweep.variants, tmp_path, SweepOptions(Path("file"), tmp_path))
    assert len(configs) == 10  # q = 0.5 is p = 1 -> 0
    papers = load_config(preset="iwslt16")
    assert configs["p=1to0"] == papers
    varied = ("random_prob", "anneal", "repeat_prob")
    for config in configs.values():
        same = {key: getattr(papers.train, key) for key in varied}
        assert config.model_copy(update={"train": config.train.model_copy(update=same)}) == papers
    assert {v.label: configs[run_of[v]].train.repeat_prob for v in sweep.variants if v.axis == "q"} == {
        "0": 0, "0.1": 0.1, "0.3": 0.3, "0.5": 0.5, "0.7": 0.7, "0.9": 0.9, "1": 1,
    }  # fmt: skip


def test_the_other_shipped_sweep_has_settings_that_exist(tmp_path):
    sweep = read_sweep(CONFIGS / "students.yaml")
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(sweep.config))
    _, configs = _runs(sweep.variants, tmp_path, SweepOptions(Path("file"), tmp_path))
    assert configs["paper"] == load_config(preset="iwslt16")
    assert len(configs) == 5
