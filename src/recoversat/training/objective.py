"""What a model is trained to do with a batch: every kind of model has its loss.

A loss of one's own (`train.objective`, docs/own-loss.md) takes the place of `batch_loss`.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from recoversat.data.batching import Batch
from recoversat.errors import UserError
from recoversat.files.storage import fingerprint
from recoversat.model.build import Model
from recoversat.model.transformer import Transformer
from recoversat.training.ctc import ctc_batch_loss
from recoversat.training.loss import Loss, smoothed_cross_entropy
from recoversat.training.masking import cmlm_batch_loss
from recoversat.training.nat import nat_batch_loss

Objective = Callable[[Model, Batch, float, bool], Loss]  # the arguments of `batch_loss`


def batch_loss(model: Model, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Sum the loss of a batch over its labels, in the way of the model's kind."""
    if isinstance(model, Transformer):
        hidden = hidden_rows(model, batch)
        weight, bias = model.embedding.weight, model.output_bias
        return smoothed_cross_entropy(hidden, weight, batch.labels, smoothing, fused, bias)
    losses = {"nat": nat_batch_loss, "cmlm": cmlm_batch_loss, "ctc": ctc_batch_loss}
    return losses[model.config.kind](model, batch, smoothing, fused)


def hidden_rows(model: Transformer, batch: Batch) -> Tensor:
    """Return what the decoder makes of every row (B, N, D); `model.logits` makes scores of it."""
    hidden: Tensor = model(
        batch.src_tokens, batch.src_positions, batch.src_sentence,
        batch.tokens, batch.steps, batch.segments, batch.sentence,
    )  # fmt: skip
    return hidden


@dataclass(frozen=True)
class OwnObjective:
    """A user's loss, found by its name `module:function`; modules may lie where the command is started."""

    name: str
    function: Objective

    @classmethod
    def load(cls, name: str) -> "OwnObjective":
        """Import it, or say what is wrong."""
        module_name, _, function_name = name.partition(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            where = f"start the command where {module_name}.py lies, or install it"
            raise UserError(f"train.objective={name}: there is no module {error.name}; {where}") from None
        function = getattr(module, function_name, None)
        if not callable(function):
            raise UserError(f"train.objective={name}: {module_name} has no function {function_name}")
        return cls(name, function)

    @property
    def fingerprint(self) -> str:
        """Identify the file it is written in: a run goes on with the loss it was begun with."""
        file = inspect.getsourcefile(self.function)
        return fingerprint(Path(file)) if file and Path(file).is_file() else self.name

    def __call__(self, model: Model, batch: Batch, smoothing: float, fused: bool) -> Loss:
        """Ask it for the loss of a batch, and look at what it gives."""
        loss = self.function(model, batch, smoothing, fused)
        if not isinstance(loss, Loss) or not loss.smoothed.requires_grad or loss.smoothed.dim():
            raise UserError(
                f"train.objective={self.name} must return recoversat.training.loss.Loss: sums over the labels, of which"
                " `smoothed` is one number that has a gradient"
            )
        return loss
