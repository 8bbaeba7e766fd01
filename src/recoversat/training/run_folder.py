"""A training run's folder: whose it is, and a log that never tells of updates that were lost."""

import json
import sys
from pathlib import Path
from typing import Any

from recoversat.config import Config, TrainConfig
from recoversat.errors import UserError
from recoversat.files.identity import check_record, claim
from recoversat.files.storage import make_empty, sweep_partial, write_text

RUN = "run.json"

# settings that may change between two starts of a run without changing what it computes
HARMLESS = {"workers", "log_every", "save_every", "validate_every", "keep_checkpoints", "tensorboard", "compile"}

EXTENSIBLE = ("train.steps", "train.schedule_steps")  # may change as `extension` allows


def claim_run(run: Path, config: Config, facts: dict[str, Any], *, force: bool) -> None:
    """Make the folder this run's own, or check that it is; `force` starts over."""
    if run.exists() and any(run.iterdir()) and not (run / RUN).is_file():
        raise UserError(f"{run} exists and is not a training run; choose another folder")
    if force and run.exists():
        make_empty(run)
    run.mkdir(parents=True, exist_ok=True)
    sweep_partial(run)
    (run / "checkpoints").mkdir(exist_ok=True)
    sweep_partial(run / "checkpoints")
    refusal = f"{run} was started with other settings; use another folder, or --force to start over"
    identity = _identity(config, facts)
    extended = extension(run, check_record(run / RUN, identity, refusal, EXTENSIBLE), config.train)
    claim(run / RUN, identity, refusal, EXTENSIBLE)
    if extended:
        print(extended, file=sys.stderr)


def extension(run: Path, before: dict[str, Any], train: TrainConfig, prefix: str = "") -> str | None:
    """Say what more updates than `before` mean for the schedule of a run, or refuse them; None where it has no more.

    They are allowed where all updates so far are those that a run of this length would have made.
    """
    if not before:
        return None
    had = before[f"{prefix}train.steps"]
    fell_until = before.get(f"{prefix}train.schedule_steps") or had
    if train.steps < had:
        raise UserError(f"{run} has {had} updates, and a run cannot be shortened; add --set train.steps={had}")
    if train.falling and train.falls_until != fell_until:
        raise UserError(
            f"{run}: {' and '.join(train.falling)} in its {fell_until} updates, and would have fallen otherwise in "
            f"{train.falls_until}; add --set train.schedule_steps={fell_until}, with which they stay where they have "
            "fallen to, or train in another folder"
        )
    if train.steps == had:
        return None
    how = "stay there" if train.falling else "do not depend on the number of updates"
    fallen = f"{' and '.join(train.falling)} until update {fell_until} and" if train.falling else "learning rate and p"
    return f"{run}: extended from {had} to {train.steps} updates; {fallen} {how}"


def cut_log(log: Path, last_update: int) -> None:
    """Drop lines about updates after the checkpoint that training continues from."""
    if not log.is_file():
        return
    kept = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= last_update:
                kept.append(line)
        except (json.JSONDecodeError, KeyError):
            continue  # the half line of a killed process
    write_text(log, "".join(f"{line}\n" for line in kept))


def _identity(config: Config, facts: dict[str, Any]) -> dict[str, Any]:
    sections = {"model": config.model.model_dump(), "train": config.train.model_dump(exclude=HARMLESS)}
    return facts | {f"{name}.{key}": value for name, values in sections.items() for key, value in values.items()}
