"""Log-probability of given translations under a model, in one parallel pass over all rows.

Probabilities are those decoding chooses from: what it never emits (PAD, BOS, UNK, and DEL where K = 1)
takes no part in them, so a translation scores here what beam search reported for it.

B pairs, S source, N rows, R rows of all pairs, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recoversat.decoding.oneshot import Score
from recoversat.decoding.stepping import Ints
from recoversat.errors import UserError
from recoversat.model.device import torch_device
from recoversat.model.transformer import Transformer
from recoversat.model.weights import load_model
from recoversat.segments import equal_cuts, rows
from recoversat.vocab import DEL, EOS, NEVER_EMITTED

LogProbs = NDArray[np.float64]
Pair = tuple[Sequence[int], Sequence[int]]  # ids of source and target, without BOS and EOS

_LOGIT_ROWS = 2048  # rows whose logits exist at the same time


@dataclass(frozen=True)
class PairScore:
    """Log-probability of a target: its sum, and each token's, segment after segment, with every EOS."""

    log_prob: float
    token_log_probs: list[float]


@torch.inference_mode()
def score_pairs(
    model: Transformer,
    pairs: Sequence[Pair],
    n_segments: int = 1,
    device: torch.device | None = None,
    batch_tokens: int = 8192,
) -> list[PairScore]:
    """Score each target given its source; with K > 1 as if written in K equal segments.

    A batch holds at most `batch_tokens` rows or source tokens, padding included, but at least one pair.
    """
    for number, (source, _) in enumerate(pairs, start=1):
        if not len(source):
            raise UserError(f"pair {number}: its source is empty; leave empty lines out before scoring")
    if device is not None:
        model = model.to(device)
    was_training = model.training
    model.eval()
    scores: list[PairScore | None] = [None] * len(pairs)
    try:
        for batch in _batches(pairs, n_segments, batch_tokens):
            for at, log_probs in zip(batch, _score(model, [pairs[i] for i in batch], n_segments), strict=True):
                scores[at] = PairScore(float(log_probs.sum()), log_probs.tolist())
    finally:
        model.train(was_training)
    return [score for score in scores if score is not None]


def load_judge(teacher: Path, vocab_size: int, device: str) -> Score:
    """Return a function from sources and targets to their log-probability under a teacher."""
    model, config = load_model(teacher)
    if not isinstance(model, Transformer) or config.model.vocab_size != vocab_size:
        raise UserError(f"{teacher}: not an autoregressive teacher with the same vocabulary")
    place = torch_device(device)

    def score(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        return [pair.log_prob for pair in score_pairs(model, list(zip(sources, targets, strict=True)), device=place)]

    return score


def equal_segments(target: Sequence[int], n_segments: int) -> list[list[int]]:
    """Close a target after each of K equal parts (EQUAL of Section 3.2.1).

    >>> equal_segments([11, 12, 13], 2), equal_segments([11, 12, 13], 1)
    ([[11, 12, 2], [13, 2]], [[11, 12, 13, 2]])
    """
    cuts = equal_cuts(np.array([len(target)]), np.array([n_segments]), n_segments)[0].tolist()
    return [[*target[start:end], EOS] for start, end in zip([0, *cuts[:-1]], cuts, strict=True)]


def _batches(pairs: Sequence[Pair], n_segments: int, batch_tokens: int) -> Iterator[list[int]]:
    """Group pairs of similar length, shortest first."""
    sizes = np.array([max(len(source), len(target) + n_segments) for source, target in pairs], dtype=np.int64)
    batch: list[int] = []
    for at in np.argsort(sizes, kind="stable").tolist():
        if batch and (len(batch) + 1) * int(sizes[at]) > batch_tokens:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def _score(model: Transformer, pairs: Sequence[Pair], n_segments: int) -> list[LogProbs]:
    """Run one batch and cut the log-probabilities of its rows pair by pair."""
    device = model.embedding.weight.device
    all_rows = [rows(equal_segments(target, n_segments)) for _, target in pairs]
    counts = np.array([len(r.labels) for r in all_rows])
    src, src_real = _padded([source for source, _ in pairs], device)
    tokens, real = _padded([r.tokens for r in all_rows], device)
    steps, _ = _padded([r.steps for r in all_rows], device)
    segments, _ = _padded([r.segments for r in all_rows], device)
    positions = torch.arange(src.shape[1], device=device).expand_as(src)
    hidden = model(src, positions, src_real, tokens, steps, segments, real)  # (B, N, D)
    labels = torch.from_numpy(np.concatenate([r.labels for r in all_rows])).to(device)  # (R,)
    banned = [*NEVER_EMITTED, DEL] if n_segments == 1 else list(NEVER_EMITTED)
    log_probs = _log_probs(model, hidden[real.bool()], labels, banned)
    return np.split(log_probs, np.cumsum(counts)[:-1])


def _padded(lines: Sequence[Sequence[int] | Ints], device: torch.device) -> tuple[Tensor, Tensor]:
    """Lay lines side by side; also number their one sentence, 0 on padding."""
    padded = np.zeros((2, len(lines), max(len(line) for line in lines)), dtype=np.int64)
    for at, line in enumerate(lines):
        padded[0, at, : len(line)] = line
        padded[1, at, : len(line)] = 1
    values, real = torch.from_numpy(padded).to(device)
    return values, real


def _log_probs(model: Transformer, hidden: Tensor, labels: Tensor, banned: list[int]) -> LogProbs:
    """Return the log-probability of each row's label, a chunk of logits at a time."""
    pieces = []
    for at in range(0, len(labels), _LOGIT_ROWS):
        logits = model.logits(hidden[at : at + _LOGIT_ROWS]).float()  # (chunk, V)
        label = logits.gather(-1, labels[at : at + _LOGIT_ROWS, None])
        logits[:, banned] = -torch.inf
        # a given target may hold what decoding never writes (mostly UNK): only there does it take part
        norm = logits.scatter(-1, labels[at : at + _LOGIT_ROWS, None], label).logsumexp(dim=-1)
        pieces.append(label[:, 0] - norm)
    return np.asarray(torch.cat(pieces).double().cpu().numpy())
