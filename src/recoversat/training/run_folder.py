"""A training run's folder: whose it is, and a log that never tells of updates that were lost."""

import json
from pathlib import Path
from typing import Any

from recoversat.config import Config
from recoversat.errors import UserError
from recoversat.files.identity import claim
from recoversat.files.storage import make_empty, sweep_partial, write_text

RUN = "run.json"

# settings that may change between two starts of a run without changing what it computes
HARMLESS = {"workers", "log_every", "save_every", "validate_every", "keep_checkpoints", "tensorboard", "compile"}


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
    claim(run / RUN, _identity(config, facts), refusal)


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
