"""A run gets more updates where those it has made are those of a longer run; else it is said what to do."""

import json
from pathlib import Path
from typing import Any

import pytest

from recoversat.config import TrainConfig, parse_config
from recoversat.data.batching import random_prob_at
from recoversat.data.corpus import Corpus
from recoversat.errors import UserError
from recoversat.model.weights import read_weights
from recoversat.training.checkpoint import TrainingState
from recoversat.training.loop import train
from recoversat.training.schedules import learning_rate
from tests.unit.training.tiny import settings

CONSTANT = {"schedule": "inverse_sqrt", "warmup": 3, "anneal": False}


def run(corpus: Corpus, folder: Path, **train_: Any) -> TrainingState:
    config = parse_config(settings(**{"steps": 6, "save_every": 3} | train_))
    return train(config, corpus, folder, device="cpu", quiet=True)


@pytest.mark.parametrize(
    ("first", "more", "said"),
    [
        (CONSTANT, {}, "learning rate and p do not depend on the number of updates"),
        ({}, {"schedule_steps": 6}, "the learning rate falls to 1e-05 and p falls to 0 until update 6 and stay there"),
        ({"segments": 1, "schedule": "inverse_sqrt"}, {}, "do not depend"),  # one segment: p divides nothing
    ],
)
def test_an_extended_run_is_bit_for_bit_the_longer_run(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], first: dict, more: dict, said: str
) -> None:
    assert run(corpus, tmp_path / "short", **first).update == 6
    capsys.readouterr()
    assert run(corpus, tmp_path / "short", **first, **more, steps=12).update == 12
    told = capsys.readouterr().err
    assert "short: extended from 6 to 12 updates" in told
    assert said in told
    run(corpus, tmp_path / "long", **first, **more, steps=12)
    ours, theirs = (read_weights(tmp_path / name / "checkpoints/step-00000012") for name in ("short", "long"))
    assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)
    losses = [
        [json.loads(line).get("loss") for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        for name in ("short", "long")
    ]
    assert losses[0] == losses[1]
    assert run(corpus, tmp_path / "short", **first, **more, steps=12).update == 12  # now it is a run of 12
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "the learning rate falls to 1e-05 and p falls to 0 in its 6 updates"),
        ({"anneal": False}, "the learning rate falls to 1e-05 in its 6 updates"),
        ({"schedule": "inverse_sqrt"}, "p falls to 0 in its 6 updates"),
    ],
)
def test_what_would_have_fallen_otherwise_is_named_with_the_fix(
    corpus: Corpus, tmp_path: Path, given: dict, what: str
) -> None:
    run(corpus, tmp_path, **given)
    with pytest.raises(UserError, match=what) as error:
        run(corpus, tmp_path, **given, steps=12)
    assert "add --set train.schedule_steps=6" in str(error.value)
    run(corpus, tmp_path, **given)  # nothing was written: the run is still one of 6


def test_a_run_is_neither_shortened_nor_extended_with_other_settings(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path, **CONSTANT)
    with pytest.raises(UserError, match=r"a run cannot be shortened; add --set train\.steps=6"):
        run(corpus, tmp_path, **CONSTANT, steps=4)
    with pytest.raises(UserError, match=r"train\.seed: 1 -> 2"):
        run(corpus, tmp_path, **CONSTANT, steps=12, seed=2)


def test_a_run_of_an_earlier_version_can_be_extended_too(corpus: Corpus, tmp_path: Path) -> None:
    run(corpus, tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    del record["train.schedule_steps"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="schedule_steps=6"):
        run(corpus, tmp_path, steps=12)
    assert run(corpus, tmp_path, steps=12, schedule_steps=6).update == 12


def test_learning_rate_and_p_fall_over_the_schedule_and_stay() -> None:
    longer = TrainConfig(steps=200, schedule_steps=100)
    shorter = TrainConfig(steps=100)
    for update in (0, 50, 99, 100):
        assert learning_rate(longer, 16, update) == learning_rate(shorter, 16, update)
        assert random_prob_at(longer, update) == random_prob_at(shorter, update)
    assert learning_rate(longer, 16, 150) == pytest.approx(1e-5)
    assert random_prob_at(longer, 150) == 0
