"""What a model is trained to do with a batch.

The one-step baseline minimises -log P(length | source) - sum over positions of log P(token | source). The length takes
the place that EOS has in the autoregressive loss: one more label a sentence.

A loss of one's own (`train.objective`, docs/own-loss.md) takes the place of `batch_loss`.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.errors import UserError
from recoversat.files.storage import fingerprint
from recoversat.model.build import Model
from recoversat.model.nat import length_classes
from recoversat.model.transformer import Transformer
from recoversat.training.loss import Loss, smoothed_cross_entropy
from recoversat.vocab import EOS

Objective = Callable[[Model, Batch, float, bool], Loss]  # the arguments of `batch_loss`
_NO_SENTENCE = -100  # cross_entropy passes over this label


def batch_loss(model: Model, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Predict every labelled row of a batch (and, for the one-step baseline, every length)."""
    if isinstance(model, Transformer):
        hidden = hidden_rows(model, batch)
        return smoothed_cross_entropy(hidden, model.embedding.weight, batch.labels, smoothing, fused)
    batch = nat_rows(batch)
    hidden, length_logits = model(
        batch.src_tokens, batch.src_positions, batch.src_sentence, batch.steps, batch.sentence
    )  # fmt: skip
    return nat_loss(hidden, length_logits, model.embedding.weight, batch, smoothing, fused)


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


def nat_rows(batch: Batch) -> Batch:
    """Drop the EOS rows of a batch divided with K = 1: what is left is one row a target token.

    A dropped row becomes padding (sentence 0, label PAD, which is 0), in arrays and tensors alike:
    labels [[11, 12, EOS, 13, EOS, PAD]] of sentences [[1, 1, 1, 2, 2, 0]] turn into
    labels [[11, 12, PAD, 13, PAD, PAD]] of sentences [[1, 1, 0, 2, 0, 0]].
    """
    written = batch.labels != EOS
    return replace(batch, labels=batch.labels * written, sentence=batch.sentence * written)


def nat_loss(
    hidden: Tensor, length_logits: Tensor, weight: Tensor, batch: Batch, smoothing: float, fused: bool = False
) -> Loss:
    """Sum the loss of the tokens and of the lengths of a batch made by `nat_rows`."""
    tokens = smoothed_cross_entropy(hidden, weight, batch.labels, smoothing, fused)
    lengths, n_sentences = length_loss(length_logits, batch.src_sentence, batch.sentence)
    return Loss(tokens.smoothed + lengths, tokens.nll + lengths.detach(), tokens.n_labels + n_sentences)


def length_loss(length_logits: Tensor, src_sentence: Tensor, sentence: Tensor) -> tuple[Tensor, Tensor]:
    """Sum -log P(length | source) over the sentences of all lines; also count them.

    Classes are not smoothed: neighbouring lengths are not equally wrong, and there is just one a sentence.
    """
    src_lengths = _tokens_of_sentences(src_sentence, length_logits.shape[1])  # (B, M)
    tgt_lengths = _tokens_of_sentences(sentence, length_logits.shape[1])
    exists = src_lengths > 0
    classes = length_classes(src_lengths, tgt_lengths).where(exists, _NO_SENTENCE)
    flat = length_logits.float().flatten(0, 1)
    return F.cross_entropy(flat, classes.flatten(), ignore_index=_NO_SENTENCE, reduction="sum"), exists.sum()


def _tokens_of_sentences(sentence: Tensor, n_sentences: int) -> Tensor:
    numbers = torch.arange(1, n_sentences + 1, device=sentence.device)
    return (sentence[:, None, :] == numbers[None, :, None]).sum(dim=-1)
