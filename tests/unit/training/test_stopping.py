"""A training that is stopped politely and continued ends as if nothing had happened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from recoversat.config import Config, parse_config
from recoversat.data.corpus import Corpus
from recoversat.errors import UserError
from recoversat.files.model_folder import checkpoint_folders
from recoversat.pipeline.sweep.run import _is_trained
from recoversat.training.checkpoint import TrainingState
from recoversat.training.loop import start_point, train
from tests.unit.training.tiny import settings

CONFIG = settings(steps=20, save_every=5, validate_every=10, keep_checkpoints=3, log_every=4)


@pytest.fixture
def run(corpus: Corpus) -> Callable[[Path], TrainingState]:
    def train_into(folder: Path) -> TrainingState:
        config: Config = parse_config(CONFIG)
        return train(config, corpus, folder, validate=lambda model: 1.0, device="cpu", quiet=True)

    return train_into


def stop_at(update: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what a signal does, at a known moment."""
    asked = iter(range(1, 21))
    monkeypatch.setattr("recoversat.training.loop._StopSign.heard", lambda *_: next(asked) == update)


@pytest.mark.parametrize("update", [10, 13, 20])  # where a validation is due, where nothing is, and at the end
def test_checkpoints_and_validations_are_those_of_a_run_that_was_not_stopped(
    run: Callable[[Path], TrainingState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: int
) -> None:
    calm, stopped = tmp_path / "calm", tmp_path / "stopped"
    ended = run(calm)
    with monkeypatch.context() as patch:
        stop_at(update, patch)
        with pytest.raises(UserError, match=f"stopped at update {update}"):
            run(stopped)
    assert (stopped / "checkpoints" / f"step-{update:08d}").is_dir()
    assert run(stopped) == ended
    kept = [[path.name for path in checkpoint_folders(folder)] for folder in (calm, stopped)]
    assert kept[0] == kept[1] == ["step-00000010", "step-00000015", "step-00000020"]
    validations = [(folder / "log.jsonl").read_text().count("validation_bleu") for folder in (calm, stopped)]
    assert validations == [2, 2]


def test_no_checkpoint_of_the_rhythm_makes_room_for_one_that_a_stop_left(
    run: Callable[[Path], TrainingState], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(18, monkeypatch)
    with pytest.raises(UserError):
        run(tmp_path)
    names = [path.name for path in checkpoint_folders(tmp_path)]
    assert names == ["step-00000005", "step-00000010", "step-00000015", "step-00000018"]


def test_a_sweep_knows_a_finished_run_that_started_from_a_teacher(
    run: Callable[[Path], TrainingState], corpus: Corpus, tmp_path: Path
) -> None:
    run(tmp_path / "teacher")
    teacher = tmp_path / "teacher"
    config = parse_config(CONFIG).model_copy(update={"data": corpus.config})
    for with_decoder in (False, True):
        out, start = tmp_path / f"run {with_decoder}", start_point(teacher, with_decoder)
        train(config, corpus, out, start_from=start, device="cpu", quiet=True)
        assert _is_trained(out, config, corpus, teacher, with_decoder)
        assert not _is_trained(out, config, corpus, teacher, not with_decoder)
        assert not _is_trained(out, config, corpus, None, False)
    assert not _is_trained(teacher, config, corpus, teacher, False)
