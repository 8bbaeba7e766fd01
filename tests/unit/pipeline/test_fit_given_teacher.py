"""`fit --teacher`: a model that is there is distilled; the student starts from it, or from its text alone."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.data.corpus import open_corpus
from recoversat.errors import UserError
from recoversat.files.model_folder import read_config
from recoversat.model.weights import read_weights
from recoversat.pipeline.import_marian import import_marian
from recoversat.text.tokenizer import vocabulary_fingerprint
from recoversat.translator import Translator

DATA = Path(__file__).parents[2] / "data"
ORIGIN = "someone/small-marian"
QUICK = [
    f"--set=train.{key}={value}"
    for key, value in {
        "steps": 3, "batch_tokens": 128, "workers": 0, "tensorboard": "false", "segments": "[1,3]",
        "keep_checkpoints": 2,
    }.items()
]  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "teacher"
    import_marian(DATA / "marian", out)
    return out


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "few.en", tmp_path / "few.de"
    for path in files:
        lines = (DATA / f"tatoeba{path.suffix}").read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:40]), encoding="utf-8")
    return files


def fit(*options: object) -> str:
    done = CliRunner().invoke(app, ["fit", "--device", "cpu", *map(str, options)])
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_student_of_the_same_shape_starts_from_the_teacher(teacher: Path, text: tuple[Path, Path]) -> None:
    out = text[0].parent / "out"
    said = fit("--teacher", teacher, "--src", text[0], "--out", out, *QUICK)
    assert "train an autoregressive teacher" not in said
    assert "from the teacher's weights" in said
    config, facts = read_config(out / "model")
    assert (facts["derived from"], facts["original licence"]) == (ORIGIN, "not in the folder")
    assert ORIGIN in (out / "model" / "README.md").read_text(encoding="utf-8")
    assert (config.model.norm, config.model.max_segments, config.model.decoder_layers) == ("after", 10, 3)
    assert config.data.languages == "en -> de"
    assert vocabulary_fingerprint(out / "model") == vocabulary_fingerprint(teacher)
    first, now = read_weights(teacher), read_weights(out / "model")
    for name in ("embedding.weight", "decoder.layers.2.cross_attention.query.weight", "output_bias"):
        assert (now[name] - first[name]).abs().max() < 0.05
    written = open_corpus(out / "distilled").train
    assert 0 < len(written) <= 40
    assert Translator(out / "model", device="cpu").translate(["Let's go."], segments=3)[0].segments
    assert "done before" in fit("--teacher", teacher, "--src", text[0], "--out", out, *QUICK, "--dry-run")


def test_a_student_of_another_shape_learns_from_the_text_alone(teacher: Path, text: tuple[Path, Path]) -> None:
    out = text[0].parent / "out"
    valid = ["--valid-src", text[0], "--valid-tgt", text[1]]
    small = ["--size", "small", "--set", "model.d_model=16", "--set", "model.d_hidden=16", "--set", "model.n_heads=2"]
    said = fit("--teacher", teacher, "--src", text[0], "--tgt", text[1], "--out", out, *valid, *small, *QUICK)
    assert "from its text alone" in said
    config, facts = read_config(out / "model")
    assert facts["derived from"] == ORIGIN
    assert (config.model.norm, config.model.output_bias, config.model.encoder_layers) == ("before", False, 3)
    assert vocabulary_fingerprint(out / "model") == vocabulary_fingerprint(teacher)
    systems = {one["system"] for one in json.loads((out / "summary.json").read_text())["systems"]}
    assert systems == {"AT greedy", "AT beam 4", "RecoverSAT K=1", "RecoverSAT K=3"}


def test_what_does_not_go_together(teacher: Path, text: tuple[Path, Path], tmp_path: Path) -> None:
    source = ["--src", text[0], "--out", tmp_path / "out"]
    for options, told in (
        ([], "give --tgt, or --teacher"),
        (["--size", "tiny"], "--size is for --teacher"),
        (["--teacher", tmp_path / "none"], "no such model folder"),
        (["--teacher", teacher, "--preset", "tiny"], "leave out --teacher-set, --preset"),
        (["--teacher", teacher, "--size", "tinny"], "tiny"),
        (["--teacher", teacher, "--set", "model.d_model=32"], "model.d_model is 32, the teacher's is 16"),
    ):
        with pytest.raises(UserError, match=told):
            fit(*source, *options)
    assert not (tmp_path / "out").exists()


def test_another_teacher_is_another_run(teacher: Path, text: tuple[Path, Path], tmp_path: Path) -> None:
    import_marian(DATA / "marian", tmp_path / "other", source="en", target="nds")
    given = ["--src", text[0], "--out", tmp_path / "out", *QUICK]
    fit("--teacher", teacher, *given)
    with pytest.raises(UserError, match="was begun with something else"):
        fit("--teacher", tmp_path / "other", *given)
