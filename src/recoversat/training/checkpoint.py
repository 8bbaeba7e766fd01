"""Checkpoints: a model folder plus the optimizer and where the run stands; written whole, never pickled."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recoversat.config import Config
from recoversat.errors import UserError
from recoversat.files.model_folder import checkpoint_folder, checkpoint_folders, read_config, write_description
from recoversat.files.storage import atomic_folder, read_json, write_json
from recoversat.model.weights import fill, read_weights, save_weights
from recoversat.text.tokenizer import Tokenizer, load_tokenizer, vocabulary_fingerprint

OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
STOPPED = "stopped"  # marks a checkpoint that is there only because somebody stopped the run


@dataclass
class TrainingState:
    """Where a training run stands, besides weights and optimizer."""

    update: int = 0
    best_bleu: float | None = None
    best_update: int | None = None


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run; older ones are pruned, and what a stop left when the next one is there.

    So a run that was stopped ends with the same checkpoints as one that was not, and with the same average of them.
    """

    run: Path
    config: Config
    tokenizer: Tokenizer
    facts: dict[str, Any]

    def save(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainingState, stopped: bool = False
    ) -> None:
        """Write a checkpoint under its final name only when it is complete, then prune."""
        final = checkpoint_folder(self.run, state.update)
        if not final.exists():
            with atomic_folder(final) as folder:
                self._write_model(folder, model, {"step": state.update})
                save_weights(_optimizer_tensors(model, optimizer), folder, OPTIMIZER)
                write_json(folder / STATE, vars(state))
                if stopped:
                    (folder / STOPPED).touch()
        earlier = checkpoint_folders(self.run)
        regular = [path for path in earlier if not (path / STOPPED).exists()]
        for old in {*earlier} - {final, *regular[-self.config.train.keep_checkpoints :]}:
            shutil.rmtree(old)

    def save_best(self, model: nn.Module, state: TrainingState) -> None:
        """Replace the best model so far."""
        with atomic_folder(self.run / "best", replace=True) as folder:
            self._write_model(folder, model, {"step": state.update, "validation_bleu": state.best_bleu})

    def resume(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[TrainingState, dict[Path, str]]:
        """Load the newest checkpoint that can be read; return where it stands, and what is wrong with newer ones."""
        damaged: dict[Path, str] = {}
        for folder in reversed(checkpoint_folders(self.run)):
            try:
                weights, moments, state = read_checkpoint(folder)
            except UserError as error:
                damaged[folder] = str(error)
                continue
            fill(model, weights, folder)
            _fill_optimizer(model, optimizer, moments)
            return state, damaged
        if damaged:
            found = "\n  ".join(["no checkpoint can be read; --force starts over", *damaged.values()])
            raise UserError(f"{self.run}: {found}")
        return TrainingState(), damaged

    def _write_model(self, folder: Path, model: nn.Module, facts: dict[str, Any]) -> None:
        write_description(folder, self.config, self.tokenizer, self.facts | facts)
        save_weights(model.state_dict(), folder)


def read_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], TrainingState]:
    """Read all of a checkpoint that training needs, or say what is damaged."""
    state = read_json(folder / STATE, "checkpoint")
    if not isinstance(state, dict) or state.keys() != vars(TrainingState()).keys():
        raise UserError(f"{folder / STATE}: damaged checkpoint")
    return read_weights(folder), read_weights(folder, OPTIMIZER), TrainingState(**state)


def set_aside(damaged: dict[Path, str]) -> None:
    """Take damaged checkpoints out of the way, where nothing takes them for one, and say so."""
    for folder, fault in damaged.items():
        aside = folder.with_name(f"damaged-{folder.name}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        print(f"{fault}; put aside as {aside.name}, the checkpoint before it is used", file=sys.stderr)


def average_models(folders: list[Path], out: Path, *, replace: bool = False) -> None:
    """Write the mean of several models of one kind as a new model."""
    if not folders:
        raise UserError("nothing to average: name at least one checkpoint")
    config, facts = read_config(folders[0])
    vocabulary = vocabulary_fingerprint(folders[0])
    total: dict[str, Tensor] = {}
    for folder in folders:
        if read_config(folder)[0].model != config.model or vocabulary_fingerprint(folder) != vocabulary:
            raise UserError(f"{folder}: another model than {folders[0]}; only checkpoints of one run can be averaged")
        for name, tensor in read_weights(folder).items():
            total[name] = total.get(name, torch.zeros((), dtype=torch.float64)) + tensor.double()
    mean = {name: (tensor / len(folders)).float() for name, tensor in total.items()}
    with atomic_folder(out, replace=replace) as folder:
        averaged = {"averaged": [path.name for path in folders]}
        write_description(folder, config, load_tokenizer(folders[0]), facts | averaged)
        save_weights(mean, folder)


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}:{key}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _fill_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for full_name, value in tensors.items():
        name, key = full_name.rsplit(":", 1)
        parameter = parameters[name]  # it is there: the weights beside it have just been found to fit
        # Adam counts its steps on the CPU unless it is fused
        on_cpu = key == "step" and not optimizer.defaults.get("fused")
        optimizer.state[parameter][key] = value if on_cpu else value.to(parameter.device)
