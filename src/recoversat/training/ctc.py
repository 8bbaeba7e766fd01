"""The loss of CTC with glancing (Gu and Kong 2021): the probability of all paths that collapse to the target.

Rows are copies of the source, `model.upsample` times as many; each writes a token or BLANK. A path's repetitions are
one token and its blanks none (`decoding.oneshot.collapse`). In training some rows carry, instead of the source, the
token they should write (glancing, Qian et al. 2021): the more, the more of the model's own path is wrong.

B lines, R rows of a line, N sentences, L rows of the longest, T tokens of the longest target, C = 1 + T classes: BLANK
and the tokens of the target. D model, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.model.nat import NatTransformer, upsampled
from recoversat.training.loss import GPU_CHUNK, Loss, smoothed_cross_entropy
from recoversat.training.nat import nat_rows
from recoversat.vocab import BLANK, PAD

_IMPOSSIBLE = -1e4  # a logit of probability 0; torch's CTC makes a gradient of NaN from -inf
_UNREACHED = -1e30  # below all sums of log-probabilities, and finite when added to


def ctc_batch_loss(model: NatTransformer, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Sum -log P(target | source) over the sentences of a batch; those with too few rows are passed over."""
    batch = nat_rows(batch)
    memory = model.encode(batch.src_tokens, batch.src_positions, batch.src_sentence)
    tokens, steps, sentence = upsampled(
        batch.src_tokens, batch.src_positions, batch.src_sentence, model.config.upsample
    )  # fmt: skip
    rows, targets = _layouts(sentence, steps, batch)
    wanted = targets.unpack(batch.labels)  # (N, T)
    if model.config.glancing:
        with torch.no_grad():
            hidden = model.decode(tokens, steps, sentence, memory, batch.src_sentence)
            path = best_path(
                class_log_probs(rows.unpack(hidden), model.embedding.weight, wanted), wanted, rows, targets
            )
            shown = glanced(rows.unpack(likeliest(model, hidden)), path, rows.lengths, model.config.glancing)
            tokens = rows.pack(torch.where(shown, path, rows.unpack(tokens)), tokens)
    hidden = model.decode(tokens, steps, sentence, memory, batch.src_sentence)
    return ctc_loss(hidden, model.embedding.weight, wanted, rows, targets, smoothing, fused)


@dataclass(frozen=True)
class Layout:
    """Where the rows of packed sentences are, and where they would be if each sentence had a line of its own."""

    real: Tensor  # (B, R) which rows belong to a sentence
    owner: Tensor  # of each such row: its sentence, from 0
    place: Tensor  # of each such row: its place in the sentence
    lengths: Tensor  # (N,)

    def unpack(self, values: Tensor) -> Tensor:
        """(B, R, ...) -> (N, L, ...), padded with 0, which is PAD."""
        laid = values.new_zeros(len(self.lengths), max(int(self.lengths.max()), 1), *values.shape[2:])
        return laid.index_put((self.owner, self.place), values[self.real])

    def pack(self, values: Tensor, over: Tensor) -> Tensor:
        """(N, L) -> (B, R), over what is there."""
        return over.masked_scatter(self.real, values[self.owner, self.place])


def ctc_loss(
    hidden: Tensor, weight: Tensor, wanted: Tensor, rows: Layout, targets: Layout, smoothing: float, fused: bool = False
) -> Loss:
    """Sum the loss of rows (B, R, D) without ever holding all logits.

    A path takes one class a row, so its log-probability is a sum over rows of log P(a class of the target) and of
    log P(class | a class of the target). The second is a CTC over C classes instead of V. The first is the difference
    between the cross-entropy of BLANK among V classes and among C.
    """
    repeated = ((wanted[:, 1:] == wanted[:, :-1]) & (wanted[:, 1:] != PAD)).sum(dim=1)
    fits = targets.lengths + repeated <= rows.lengths  # (N,) two equal tokens need a blank between them
    log_probs = class_log_probs(rows.unpack(hidden), weight, wanted)  # (N, L, C)
    paths = F.ctc_loss(
        log_probs.transpose(0, 1), first_places(wanted) + 1, rows.lengths, targets.lengths, reduction="none",
        zero_infinity=True,
    )  # fmt: skip
    used = fits[rows.owner]
    blank = -(log_probs[rows.owner, rows.place, 0] * used).sum()
    labels = torch.full_like(rows.real, PAD, dtype=torch.long).masked_scatter(rows.real, BLANK * used)
    among_all = smoothed_cross_entropy(hidden, weight, labels, smoothing, fused)
    among_classes = paths[fits].sum() - blank
    smoothed = among_all.smoothed + (1 - smoothing) * among_classes
    return Loss(smoothed, among_all.nll + among_classes.detach(), targets.lengths[fits].sum())


def class_log_probs(hidden: Tensor, weight: Tensor, wanted: Tensor) -> Tensor:
    """Return log P(class | a class of the target) of rows (N, L, D): (N, L, C), in fp32."""
    classes = F.pad(wanted, (1, 0), value=BLANK)  # (N, C)
    logits = torch.einsum("nld,ncd->nlc", hidden, weight[classes].to(hidden.dtype)).float()
    places = torch.arange(wanted.shape[1], device=wanted.device)
    known = F.pad((first_places(wanted) == places) & (wanted != PAD), (1, 0), value=True)  # each class once
    return logits.masked_fill(~known[:, None], _IMPOSSIBLE).log_softmax(dim=-1)


def first_places(wanted: Tensor) -> Tensor:
    """Return where each token of a target stands in it for the first time.

    >>> first_places(torch.tensor([[7, 8, 7, 7]])).tolist()
    [[0, 1, 0, 0]]
    """
    return (wanted[:, :, None] == wanted[:, None, :]).to(torch.uint8).argmax(dim=-1)


def best_path(log_probs: Tensor, wanted: Tensor, rows: Layout, targets: Layout) -> Tensor:
    """Return the likeliest path that collapses to the target: a token or BLANK for each row, (N, L).

    A path goes through the states BLANK y1 BLANK y2 ... BLANK: it stays, takes the next one, or leaves a BLANK out
    between two tokens that differ.
    """
    n, length = len(wanted), log_probs.shape[1]
    states = torch.full((n, 2 * wanted.shape[1] + 1), BLANK, device=wanted.device)  # (N, 2T + 1)
    states[:, 1::2] = wanted
    classes = torch.zeros_like(states)
    classes[:, 1::2] = first_places(wanted) + 1
    emitted = log_probs.gather(2, classes[:, None].expand(-1, length, -1))
    may_skip = torch.zeros_like(states, dtype=torch.bool)
    may_skip[:, 2:] = (states[:, 2:] != BLANK) & (states[:, 2:] != states[:, :-2])
    best = torch.full_like(emitted[:, 0], _UNREACHED)
    best[:, :2] = emitted[:, 0, :2]
    moves = torch.zeros_like(emitted, dtype=torch.int8)  # (N, L, 2T + 1) how many states a row is after the one before
    for row in range(1, length):
        skipped = F.pad(best, (2, 0), value=_UNREACHED)[:, :-2].masked_fill(~may_skip, _UNREACHED)
        came = torch.stack([best, F.pad(best, (1, 0), value=_UNREACHED)[:, :-1], skipped])
        reached, move = came.max(dim=0)
        exists = (row < rows.lengths)[:, None]
        best = torch.where(exists, reached + emitted[:, row], best)
        moves[:, row] = move * exists
    last = 2 * targets.lengths[:, None]  # it ends in the last token, or in the BLANK after it
    ends = torch.cat([last, (last - 1).clamp(min=0)], dim=1)
    at = ends.gather(1, best.gather(1, ends).argmax(dim=1, keepdim=True))  # (N, 1)
    path = wanted.new_empty(n, length)
    for row in reversed(range(length)):
        path[:, row] = states.gather(1, at)[:, 0]
        at = at - moves[:, row].gather(1, at)
    return path


def glanced(written: Tensor, path: Tensor, lengths: Tensor, share: float) -> Tensor:
    """Choose at random the rows that are shown their token: `share` times as many as are wrong, (N, L)."""
    real = torch.arange(path.shape[1], device=path.device) < lengths[:, None]
    n_wrong = ((written != path) & real).sum(dim=1)
    keys = torch.rand(path.shape, device=path.device).masked_fill(~real, 2.0)
    return keys.argsort(dim=1).argsort(dim=1) < (share * n_wrong).long()[:, None]


def likeliest(model: NatTransformer, hidden: Tensor) -> Tensor:
    """Return the likeliest token of each row, a chunk of logits at a time."""
    chunks = [model.logits(chunk).argmax(dim=-1) for chunk in hidden.flatten(0, 1).split(GPU_CHUNK)]
    return torch.cat(chunks).view(hidden.shape[:2])


def _layouts(sentence: Tensor, steps: Tensor, batch: Batch) -> tuple[Layout, Layout]:
    """Lay out the rows of the source's copies and the tokens of the targets, sentence by sentence."""
    numbers = 1 + int(sentence.max())
    names = torch.unique((_name(sentence, numbers))[sentence > 0])

    def layout(sentence: Tensor, places: Tensor) -> Layout:
        real = sentence > 0
        owner = torch.searchsorted(names, _name(sentence, numbers)[real])
        return Layout(real, owner, places[real], torch.bincount(owner, minlength=len(names)))

    return layout(sentence, steps), layout(batch.sentence, batch.steps)


def _name(sentence: Tensor, numbers: int) -> Tensor:
    """Give each sentence of all lines a number of its own."""
    return torch.arange(len(sentence), device=sentence.device)[:, None] * numbers + sentence
