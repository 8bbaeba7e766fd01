"""The loss of the one-step baseline: -log P(length | source) - sum over positions of log P(token | source).

The length takes the place that EOS has in the autoregressive loss: one more label a sentence.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.model.nat import NatTransformer, length_classes
from recoversat.training.loss import Loss, smoothed_cross_entropy
from recoversat.vocab import EOS

_NO_SENTENCE = -100  # cross_entropy passes over this label


def nat_batch_loss(model: NatTransformer, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Predict every token and every length of a batch."""
    batch = nat_rows(batch)
    hidden, length_logits = model(
        batch.src_tokens, batch.src_positions, batch.src_sentence, batch.steps, batch.sentence
    )  # fmt: skip
    return nat_loss(hidden, length_logits, model.embedding.weight, batch, smoothing, fused)


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
