"""The paper's neighbours go through the commands that RecoverSAT goes through."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from recoversat.cli.app import app
from recoversat.measuring.own import load_system
from recoversat.measuring.specs import parse_system
from recoversat.measuring.speed.results import PARALLEL
from recoversat.model.weights import load_model, read_weights
from recoversat.segments import Division, Ints, deal_many
from recoversat.translator import Translator
from tests.unit.training.tiny import tiny_corpus

SETTINGS = {
    "data.vocab_size": 400, "model.d_model": 16, "model.d_hidden": 16, "model.n_heads": 2, "model.encoder_layers": 1,
    "model.decoder_layers": 1, "train.steps": 4, "train.save_every": 2, "train.batch_tokens": 64, "train.workers": 0,
    "train.learning_rate": 0.01, "train.tensorboard": "false", "train.random_prob": 0, "train.repeat_prob": 0,
}  # fmt: skip
SEGMENTS = {"segments": 1, "sat": "[2,3]", "nat": 1, "cmlm": 1, "ctc": 1}
NEIGHBOURS = ("sat", "cmlm", "ctc")
TEXT = ["I like dogs.", "He is here."]


def run(*arguments: object, fails: bool = False) -> Result:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception and not fails:
        raise done.exception
    return done


def train(corpus: Path, out: Path, kind: str, *more: object, **changes: object) -> str:
    settings = SETTINGS | {"model.kind": kind, "train.segments": SEGMENTS[kind]} | changes
    each = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return run("train", corpus, "--out", out, "--device", "cpu", *each, *more).stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, a teacher and every neighbour, which started from the teacher's encoder."""
    folder = tmp_path_factory.mktemp("neighbours")
    tiny_corpus(folder)
    train(folder / "corpus", folder / "teacher", "segments")
    for kind in NEIGHBOURS:
        train(folder / "corpus", folder / kind, kind, "--init-from", folder / "teacher")
    return folder


def test_segments_are_advised_against_one_decoder_layer(trained: Path, tmp_path: Path) -> None:
    def said(kind: str, **changes: object) -> str:
        once = {"train.steps": 1, "train.save_every": 1} | changes
        return train(trained / "corpus", tmp_path / f"{kind}{changes}", kind, **once)

    note = "note: one decoder layer was too few for segments"
    assert note in said("segments", **{"train.segments": 3})
    assert note not in said("segments", **{"train.segments": 3, "model.decoder_layers": 2})
    assert note not in said("segments") + said("sat")


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_a_run_that_was_stopped_ends_with_the_same_weights(kind: str, trained: Path, tmp_path: Path) -> None:
    halves = tmp_path / "halves"
    halted = {"train.steps": 2, "train.schedule_steps": 4}
    start = ("--init-from", trained / "teacher")
    train(trained / "corpus", halves, kind, *start, **halted)
    train(trained / "corpus", halves, kind, *start, "--force", **{"train.steps": 4, "train.schedule_steps": 4})
    last = "checkpoints/step-00000004"
    ours, theirs = read_weights(halves / last), read_weights(trained / kind / last)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    model, config = load_model(trained / kind / last)
    assert config.model.kind == kind
    assert ("length.weight" in model.state_dict()) == (kind == "cmlm")


def test_only_a_sat_is_trained_on_tokens_dealt_out(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dealt: list[int] = []

    def deal(lengths: Ints, n_segments: Ints) -> Division:
        dealt.extend(n_segments.tolist())
        return deal_many(lengths, n_segments)

    monkeypatch.setattr("recoversat.data.batching.deal_many", deal)
    train(trained / "corpus", tmp_path / "teacher", "segments", **{"train.steps": 1})
    assert not dealt
    train(trained / "corpus", tmp_path / "sat", "sat", **{"train.steps": 1})
    assert set(dealt) == {2, 3}


def test_the_teachers_encoder_is_where_they_start(trained: Path, tmp_path: Path) -> None:
    teacher = read_weights(trained / "teacher/checkpoints/step-00000004")
    for kind in NEIGHBOURS:
        out = tmp_path / kind
        train(
            trained / "corpus",
            out,
            kind,
            "--init-from",
            trained / "teacher",
            **{"train.steps": 1, "train.learning_rate": 1e-9},
        )
        begun = read_weights(out / "checkpoints/step-00000001")
        assert all(
            torch.allclose(begun[name], teacher[name], atol=1e-6) for name in begun if name.startswith("encoder.")
        )


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_it_translates_by_name_and_in_python(kind: str, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT))
    done = run("translate", "--model", trained / kind, "--device", "cpu", tmp_path / "text", "--out", tmp_path / "out")
    assert done.exit_code == 0
    written = Translator(trained / kind, device="cpu").translate(TEXT)
    assert (tmp_path / "out").read_text().splitlines() == [one.text for one in written]
    assert all(len(one.segments) == 1 for one in written)
    refused = run("translate", "--model", trained / kind, "--quality", "best", tmp_path / "text", fails=True)
    assert f"of kind '{kind}' cannot verify what it wrote" in str(refused.exception) + refused.output


def test_all_are_measured_side_by_side(trained: Path, tmp_path: Path) -> None:
    systems = {
        "AT": "teacher", "SAT 2": "sat:segments=2", "SAT 3": "sat:segments=3", "CTC": "ctc",
        "CMLM 1": "cmlm:iterations=1:lengths=2", "CMLM 4": "cmlm:iterations=4:lengths=2",
    }  # fmt: skip
    named = [part for name, path in systems.items() for part in ("--system", f"{name}={trained / path}")]
    test = f"t={trained / 'tatoeba.en'},{trained / 'tatoeba.de'}"
    run("evaluate", *named, "--test", test, "--at", "AT", "--samples", 10, "--out", tmp_path / "r", "--device", "cpu")
    report = (tmp_path / "r/report.md").read_text()
    heads, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.splitlines() if " | " in line]
    steps = {row[1]: float(row[heads.index("Step")]) for row in rows[: len(systems)]}
    assert list(steps) == list(systems)
    assert (steps["CTC"], steps["CMLM 1"], steps["CMLM 4"]) == (1, 1, 4)
    assert steps["AT"] > steps["SAT 2"] > steps["SAT 3"]
    assert "model:sat" in report
    assert "iterations:4" in report


@pytest.mark.parametrize(
    ("spec", "family"),
    [("sat:segments=2", "sat"), ("sat:segments=1", "at"), ("ctc", "ctc"), ("cmlm:lengths=3", "cmlm")],
)
def test_bench_knows_its_family(spec: str, family: str, trained: Path) -> None:
    system = load_system(parse_system(f"s={trained / spec}"), "cpu", 1)
    assert system.facts["family"] == family
    assert family in (*PARALLEL, "at")
    assert system.settings()["model"] == spec.partition(":")[0]
    if "lengths" in spec:
        assert system.settings()["lengths"] == 3


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_it_is_exported_and_says_the_same(kind: str, trained: Path, tmp_path: Path) -> None:
    assert run("export", trained / kind, tmp_path / "onnx", "--precision", "fp32").exit_code == 0
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT))
    run("translate", "--model", tmp_path / "onnx", "--device", "cpu", tmp_path / "text", "--out", tmp_path / "out")
    wanted = Translator(trained / kind, device="cpu").translate(TEXT)
    assert (tmp_path / "out").read_text().splitlines() == [one.text for one in wanted]
    system = load_system(parse_system(f"s={tmp_path / 'onnx'}"), "cpu", 1)
    assert (system.facts["engine"], system.facts["family"]) == ("onnx", kind)
