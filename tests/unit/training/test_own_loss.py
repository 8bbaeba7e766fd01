"""A loss of one's own: the example of docs/own-loss.md trains, and belongs to its run."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.errors import UserError
from recoversat.training.objective import OwnObjective
from tests.unit.training.tiny import settings, tiny_corpus

ROOT = Path(__file__).parents[3]
EXAMPLE = re.findall(r"```python\n# my_loss\.py\n(.*?)```", (ROOT / "docs/own-loss.md").read_text(), flags=re.DOTALL)[0]
SETTINGS = {
    f"{section}.{key}": value
    for section, values in settings(steps=6, save_every=3, segments=3, learning_rate=0.02).items()
    for key, value in values.items()
}
OWN = ("--set", "train.objective=my_loss:heavy_deletions")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the user's module and a corpus, in which commands are started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_loss", raising=False)
    (tmp_path / "my_loss.py").write_text(EXAMPLE, encoding="utf-8")
    tiny_corpus(tmp_path)
    return tmp_path


def losses(out: str, *more: str) -> list[tuple[float, float]]:
    """Train, and return (loss, nll) of every update."""
    settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    done = CliRunner().invoke(app, ["train", "corpus", "--out", out, "--device", "cpu", *settings, *more])
    if done.exception:
        raise done.exception
    lines = [json.loads(line) for line in Path(out, "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(line["loss"], line["nll"]) for line in lines]


def edit(old: str, new: str) -> None:
    text = Path("my_loss.py").read_text(encoding="utf-8")
    assert old in text
    Path("my_loss.py").write_text(text.replace(old, new), encoding="utf-8")
    sys.modules.pop("my_loss", None)


def test_the_example_trains_another_model_and_with_weight_1_ours() -> None:
    ours, heavy = losses("ours"), losses("heavy", *OWN)
    assert heavy[0][0] > ours[0][0] * 1.01  # the same model, and deletions count more
    assert heavy[0][1] == pytest.approx(ours[0][1], rel=1e-5)
    assert heavy[5][1] != pytest.approx(ours[5][1], rel=1e-5)  # it has learnt something else
    edit("WEIGHT = 3.0", "WEIGHT = 1.0")
    assert [loss for loss, _ in losses("same", *OWN)] == pytest.approx([loss for loss, _ in ours], rel=1e-5)


def test_a_run_goes_on_with_the_loss_it_was_begun_with() -> None:
    begun = losses("run", *OWN)
    assert losses("run", *OWN) == begun
    with pytest.raises(UserError, match=r"train\.objective: my_loss:heavy_deletions -> None"):
        losses("run")
    edit("WEIGHT = 3.0", "WEIGHT = 2.0")
    with pytest.raises(UserError, match=r"started with other settings(.|\n)*objective: \w{16} -> \w{16}"):
        losses("run", *OWN)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:loss", r"there is no module nowhere; start the command where nowhere\.py lies, or install it"),
        ("my_loss:light_deletions", "my_loss has no function light_deletions"),
        ("my_loss", r"train\.objective: String should match pattern"),
    ],
)
def test_a_name_that_leads_nowhere_is_told(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        losses("run", "--set", f"train.objective={name}")
    assert not Path("run").exists()


@pytest.mark.parametrize("wrong", ["each", "Loss(each.sum().detach(), nll, nll)", "Loss(each, nll, nll)"])
def test_what_is_no_loss_is_refused(wrong: str) -> None:
    edit("    return Loss(", f"    return {wrong}\n    return Loss(")
    with pytest.raises(UserError, match=r"must return recoversat\.training\.loss\.Loss"):
        losses("run", *OWN)


def test_functions_of_a_notebook_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "my_notebook_loss", lambda *_: None, raising=False)
    assert OwnObjective.load("__main__:my_notebook_loss").fingerprint
