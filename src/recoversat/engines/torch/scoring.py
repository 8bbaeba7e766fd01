"""Log-probability of given translations under a model, in one parallel pass over all rows.

Probabilities are those decoding chooses from: what it never emits (PAD, BOS, UNK, and DEL where K = 1)
takes no part in them, so a translation scores here what beam search reported for it.

B pairs, S source, N rows, R rows of all pairs, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.pairs import Lines, Pair, deleting_rows, equal_rows, in_batches, scored, side_by_side
from recoversat.model.transformer import Transformer
from recoversat.segments import Rows
from recoversat.vocab import DEL, NEVER_EMITTED

_BATCH_ROWS = 8192  # or source tokens, that go through the model together
_LOGIT_ROWS = 2048  # rows whose logits exist at the same time


def score_pairs(model: Transformer, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
    """Score each target given its source; with K > 1 as if written in K equal segments."""
    targets = [equal_rows(target, n_segments) for _, target in pairs]
    banned = [*NEVER_EMITTED, DEL] if n_segments == 1 else list(NEVER_EMITTED)
    found = _score(model, pairs, targets, n_segments, banned)
    return [scored(target, own) for target, own in zip(targets, found, strict=True)]


def delete_probs(model: Transformer, pairs: Sequence[Pair]) -> list[list[float]]:
    """Return the probability of DEL after each token of each target."""
    found = _score(model, pairs, [deleting_rows(target) for _, target in pairs], 1, list(NEVER_EMITTED))
    return [np.exp(own[1:]).tolist() for own in found]


@torch.inference_mode()
def _score(
    model: Transformer, pairs: Sequence[Pair], targets: Sequence[Rows], n_segments: int, banned: list[int]
) -> list[list[float]]:
    """Return the log-probability of every row's label, target by target."""

    def score(batch: list[int]) -> list[list[float]]:
        return _score_batch(model, [pairs[i][0] for i in batch], [targets[i] for i in batch], banned)

    return in_batches(pairs, n_segments, _BATCH_ROWS, score)


def _score_batch(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Rows], banned: list[int]
) -> list[list[float]]:
    """Run one batch and cut the log-probabilities of its rows target by target."""
    device = model.embedding.weight.device
    columns: list[Lines] = [
        sources,
        [r.tokens for r in targets],
        [r.steps for r in targets],
        [r.segments for r in targets],
    ]
    src, tokens, steps, segments = (torch.from_numpy(side_by_side(column)).to(device) for column in columns)
    src_real, real = (_real(column, device) for column in columns[:2])
    positions = torch.arange(src.shape[1], device=device).expand_as(src)
    hidden = model(src, positions, src_real, tokens, steps, segments, real)  # (B, N, D)
    labels = torch.from_numpy(np.concatenate([r.labels for r in targets])).to(device)  # (R,)
    log_probs = _log_probs(model, hidden[real.bool()], labels, banned)
    return [own.tolist() for own in log_probs.cpu().split([len(r.labels) for r in targets])]


def _real(lines: Lines, device: torch.device) -> Tensor:
    """Number the one sentence of each line, 0 on padding."""
    return torch.from_numpy(side_by_side([np.ones(len(line), dtype=np.int64) for line in lines])).to(device)


def _log_probs(model: Transformer, hidden: Tensor, labels: Tensor, banned: list[int]) -> Tensor:
    """Return the log-probability of each row's label, a chunk of logits at a time."""
    pieces = []
    for at in range(0, len(labels), _LOGIT_ROWS):
        logits = model.logits(hidden[at : at + _LOGIT_ROWS]).float()  # (chunk, V)
        label = logits.gather(-1, labels[at : at + _LOGIT_ROWS, None])
        logits[:, banned] = -torch.inf
        # a given target may hold what decoding never writes (mostly UNK): only there does it take part
        norm = logits.scatter(-1, labels[at : at + _LOGIT_ROWS, None], label).logsumexp(dim=-1)
        pieces.append(label[:, 0] - norm)
    return torch.cat(pieces)
