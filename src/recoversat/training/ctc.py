"""The loss of CTC with glancing (Gu and Kong 2021): the probability of all paths that collapse to the target.

Rows are copies of the source, `model.upsample` times as many; each writes a token or BLANK. A path's repetitions are
one token and its blanks none (`decoding.oneshot.collapse`). In training some rows carry, instead of the source, the
token they should write (glancing, Qian et al. 2021): the more, the more of the model's own path is wrong.

Sentences of similar lengths are a group, which is laid out by its longest: by the longest of a whole update nearly all
would be padding. On a GPU nothing but the lengths is asked of the device, and that once, before it has work to do.

B lines, R rows of a line, N sentences of a group, L rows of the longest, T tokens of the longest target, C = 1 + T
classes: BLANK and the tokens of the target. D model, V vocabulary.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.model.nat import NatTransformer, upsampled
from recoversat.segments import Ints
from recoversat.training.loss import GPU_CHUNK, Loss, smoothed_cross_entropy
from recoversat.training.nat import nat_rows
from recoversat.vocab import BLANK, PAD

_IMPOSSIBLE = -1e4  # a logit of probability 0; torch's CTC makes a gradient of NaN from -inf
_UNREACHED = -1e30  # below all sums of log-probabilities, and finite when added to
_GPU_ROW, _CPU_ROW = 100_000, 2_000  # cells (sentence, row, class) that take the time of a row's kernel launches


def ctc_batch_loss(model: NatTransformer, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Sum -log P(target | source) over the sentences of a batch; those with too few rows are passed over."""
    batch = nat_rows(batch)
    tokens, steps, sentence = upsampled(
        batch.src_tokens, batch.src_positions, batch.src_sentence, model.config.upsample
    )  # fmt: skip
    groups = _groups(*_layouts(sentence, steps, batch), batch.labels)
    memory = model.encode(batch.src_tokens, batch.src_positions, batch.src_sentence)
    if model.config.glancing:
        with torch.no_grad():
            hidden = model.decode(tokens, steps, sentence, memory, batch.src_sentence)
            tokens = glimpse(model, hidden, tokens, groups)
    hidden = model.decode(tokens, steps, sentence, memory, batch.src_sentence)
    return ctc_loss(hidden, model.embedding.weight, groups, smoothing, fused)


@dataclass(frozen=True)
class Layout:
    """Where the rows of packed sentences are, and where they would be if each sentence had a line of its own."""

    at: Tensor  # of each row: where it is among the B * R
    owner: Tensor  # of each row: its sentence, from 0
    place: Tensor  # of each row: its place in the sentence
    lengths: Tensor  # (N,)
    sizes: Tensor  # the same, on the host

    @classmethod
    def of(cls, first: Ints, sizes: Ints, device: torch.device) -> "Layout":
        """Lay out sentences of which it is known where they begin among the B * R."""
        ahead = np.cumsum(sizes) - sizes
        begins, before, lengths = torch.from_numpy(np.stack([first, ahead, sizes])).to(device)
        owner = torch.repeat_interleave(lengths, output_size=int(sizes.sum()))  # without asking the device
        place = torch.arange(len(owner), device=device) - before[owner]
        return cls(begins[owner] + place, owner, place, lengths, torch.from_numpy(sizes))

    def part(self, start: int, end: int) -> "Layout":
        """Return the layout of some of the sentences."""
        first, last = (int(self.sizes[:n].sum()) for n in (start, end))
        owner = self.owner[first:last] - start
        return Layout(
            self.at[first:last], owner, self.place[first:last], self.lengths[start:end], self.sizes[start:end]
        )

    def unpack(self, values: Tensor) -> Tensor:
        """(B, R, ...) -> (N, L, ...), padded with 0, which is PAD."""
        laid = values.new_zeros(len(self.sizes), max(int(self.sizes.max()), 1), *values.shape[2:])
        return laid.index_put((self.owner, self.place), values.flatten(0, 1).index_select(0, self.at))

    def pack(self, values: Tensor, over: Tensor) -> Tensor:
        """(N, L) -> (B, R), over what is there."""
        return over.flatten().scatter(0, self.at, values[self.owner, self.place]).view_as(over)


@dataclass(frozen=True)
class Group:
    """Sentences of similar lengths: their rows, their targets' tokens, and these laid out, (N, T)."""

    rows: Layout
    targets: Layout
    wanted: Tensor


def ctc_loss(hidden: Tensor, weight: Tensor, groups: list[Group], smoothing: float, fused: bool = False) -> Loss:
    """Sum the loss of rows (B, R, D) without ever holding all logits.

    A path takes one class a row, so its log-probability is a sum over rows of log P(a class of the target) and of
    log P(class | a class of the target). The second is a CTC over C classes instead of V. The first is the difference
    between the cross-entropy of BLANK among V classes and among C.
    """
    labels = torch.full(hidden.shape[:2], PAD, device=hidden.device)
    among_classes, n_labels = hidden.new_zeros((), dtype=torch.float32), labels.new_zeros(())
    for group in groups:
        fits = has_path(group)
        labels.view(-1)[group.rows.at] = BLANK * fits[group.rows.owner]
        among_classes = among_classes + loss_among_classes(hidden, weight, group, fits)
        n_labels = n_labels + (group.targets.lengths * fits).sum()
    among_all = smoothed_cross_entropy(hidden, weight, labels, smoothing, fused)
    smoothed = among_all.smoothed + (1 - smoothing) * among_classes
    return Loss(smoothed, among_all.nll + among_classes.detach(), n_labels)


def has_path(group: Group) -> Tensor:
    """Say which targets have enough rows, (N,): two equal tokens need a blank between them."""
    repeated = ((group.wanted[:, 1:] == group.wanted[:, :-1]) & (group.wanted[:, 1:] != PAD)).sum(dim=1)
    return group.targets.lengths + repeated <= group.rows.lengths


def loss_among_classes(hidden: Tensor, weight: Tensor, group: Group, fits: Tensor) -> Tensor:
    """Sum -log P(target | classes of the target) over the targets that fit, less the cross-entropy of BLANK."""
    rows, targets, wanted = group.rows, group.targets, group.wanted
    log_probs = class_log_probs(rows.unpack(hidden), weight, wanted)  # (N, L, C)
    paths = F.ctc_loss(
        log_probs.transpose(0, 1), first_places(wanted) + 1, rows.sizes, targets.sizes, reduction="none",
        zero_infinity=True,
    )  # fmt: skip
    blank = -torch.where(_real(rows.lengths, log_probs.shape[1]), log_probs[:, :, 0], 0.0).sum(dim=1)
    return torch.where(fits, paths - blank, 0.0).sum()


def class_log_probs(hidden: Tensor, weight: Tensor, wanted: Tensor) -> Tensor:
    """Return log P(class | a class of the target) of rows (N, L, D): (N, L, C), in fp32."""
    classes = F.pad(wanted, (1, 0), value=BLANK)  # (N, C)
    table = F.embedding(classes, weight, PAD)  # unlike that of weight[classes], its gradient sums no padding
    logits = torch.einsum("nld,ncd->nlc", hidden, table.to(hidden.dtype)).float()
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
    states = torch.full((len(wanted), 2 * wanted.shape[1] + 1), BLANK, device=wanted.device)  # (N, 2T + 1)
    states[:, 1::2] = wanted
    classes = torch.zeros_like(states)
    classes[:, 1::2] = first_places(wanted) + 1
    may_skip = torch.zeros_like(states, dtype=torch.bool)
    may_skip[:, 2:] = (states[:, 2:] != BLANK) & (states[:, 2:] != states[:, :-2])
    emitted = log_probs.transpose(0, 1).gather(2, classes.expand(log_probs.shape[1], -1, -1))
    best, moves = _best_states(emitted, may_skip)
    moves *= _real(rows.lengths, len(emitted)).T[1:, :, None]  # where a sentence has ended, nothing moves
    reached = best[(rows.lengths - 1).clamp(min=0), torch.arange(len(wanted), device=wanted.device)]
    last = 2 * targets.lengths[:, None]  # it ends in the last token, or in the BLANK after it
    ends = torch.cat([last, (last - 1).clamp(min=0)], dim=1)
    visited = [ends.gather(1, reached.gather(1, ends).argmax(dim=1, keepdim=True))]  # (N, 1), from the end
    for origin in reversed((torch.arange(states.shape[1], device=wanted.device) - moves).unbind()):
        visited.append(origin.gather(1, visited[-1]))
    return states.gather(1, torch.cat(visited[::-1], dim=1))


def _best_states(emitted: Tensor, may_skip: Tensor) -> tuple[Tensor, Tensor]:
    """Return how likely the best way to each state is, (L, N, 2T + 1), and how many states a row moves, (L - 1, ...).

    Two states that nothing reaches stand before the first, so that all moves are views of the row before. A row takes
    four operations; which move was the best is found out for all rows together.
    """
    best = F.pad(emitted, (2, 0), value=_UNREACHED)
    best[0, :, 4:] = _UNREACHED
    barred = torch.zeros_like(emitted[0]).masked_fill(~may_skip, _UNREACHED)
    stay, step, skip = (best[:, :, at : at + emitted.shape[2]] for at in (2, 1, 0))
    for here, stayed, stepped, skipped in zip(
        stay[1:].unbind(), stay[:-1].unbind(), step[:-1].unbind(), skip[:-1].unbind(), strict=True
    ):
        here += torch.maximum(torch.maximum(stayed, stepped), skipped + barred)
    moves = (step > stay)[:-1].to(torch.int8)
    return stay, moves.masked_fill_(skip[:-1] + barred > torch.maximum(stay, step)[:-1], 2)


def glimpse(model: NatTransformer, hidden: Tensor, tokens: Tensor, groups: list[Group]) -> Tensor:
    """Show the decoder some tokens of the best paths in the place of those (B, R) with which it wrote `hidden`."""
    written = likeliest(model, hidden)
    for group in groups:
        rows, wanted = group.rows, group.wanted
        log_probs = class_log_probs(rows.unpack(hidden), model.embedding.weight, wanted)
        path = best_path(log_probs, wanted, rows, group.targets)
        shown = glanced(rows.unpack(written), path, rows.lengths, model.config.glancing)
        tokens = rows.pack(torch.where(shown, path, rows.unpack(tokens)), tokens)
    return tokens


def glanced(written: Tensor, path: Tensor, lengths: Tensor, share: float) -> Tensor:
    """Choose at random the rows that are shown their token: `share` times as many as are wrong, (N, L)."""
    real = _real(lengths, path.shape[1])
    n_wrong = ((written != path) & real).sum(dim=1)
    keys = torch.rand(path.shape, device=path.device).masked_fill(~real, 2.0)
    return keys.argsort(dim=1).argsort(dim=1) < (share * n_wrong).long()[:, None]


def likeliest(model: NatTransformer, hidden: Tensor) -> Tensor:
    """Return the likeliest token of each row, a chunk of logits at a time."""
    chunks = [model.logits(chunk).argmax(dim=-1) for chunk in hidden.flatten(0, 1).split(GPU_CHUNK)]
    return torch.cat(chunks).view(hidden.shape[:2])


def _real(lengths: Tensor, longest: int) -> Tensor:
    """Tell the rows of sentences from padding, (N, L)."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def _layouts(sentence: Tensor, steps: Tensor, batch: Batch) -> tuple[Layout, Layout]:
    """Lay out the rows of the source's copies and the tokens of the targets, the sentences with fewest rows first."""
    parts = [sentence, steps, batch.sentence, batch.steps]
    flat = torch.cat([part.flatten() for part in parts]).cpu().split([part.numel() for part in parts])  # asks once
    sides = [part.view_as(like).numpy() for part, like in zip(flat, parts, strict=True)]
    n_numbers = 1 + int(sides[0].max())
    first, sizes = _spans(sides[0], sides[1], n_numbers)
    tgt_first, tgt_sizes = _spans(sides[2], sides[3], n_numbers)
    (exist,) = np.nonzero(sizes)
    order = exist[np.lexsort((tgt_sizes[exist], sizes[exist]))]
    device = sentence.device
    return Layout.of(first[order], sizes[order], device), Layout.of(tgt_first[order], tgt_sizes[order], device)


def _spans(sentence: Ints, steps: Ints, n_numbers: int) -> tuple[Ints, Ints]:
    """Return where among all rows each sentence of each line begins, and its length, which is 0 for number 0."""
    names = (sentence + n_numbers * np.arange(len(sentence))[:, None]).ravel()
    first, sizes = np.zeros((2, len(sentence) * n_numbers), dtype=np.int64)
    (begins,) = np.nonzero(steps.ravel() == 0)  # those of number 0, which is padding, are not looked at
    first[names[begins]] = begins
    sizes += np.bincount(names, minlength=len(sizes))
    sizes[::n_numbers] = 0
    return first, sizes


def _groups(rows: Layout, targets: Layout, labels: Tensor) -> list[Group]:
    """Divide sentences, which lie there by their rows, into groups."""
    ends = group_ends(rows.sizes.numpy(), targets.sizes.numpy(), _GPU_ROW if labels.is_cuda else _CPU_ROW)
    parts = [(rows.part(*part), targets.part(*part)) for part in zip([0, *ends], ends, strict=False)]
    return [Group(*both, wanted=both[1].unpack(labels)) for both in parts]


def group_ends(n_rows: Ints, n_tokens: Ints, row_cost: int) -> list[int]:
    """Divide sentences, those with fewest rows first, so that the sum over groups of L (N C + `row_cost`) is least.

    >>> group_ends(np.array([3, 3, 6, 90]), np.array([2, 3, 2, 30]), 10)
    [3, 4]
    """
    (ends,) = np.nonzero(np.diff(n_rows, append=-1))  # equally many rows stay together
    ends = ends + 1
    starts = np.concatenate([[0], ends])[: len(ends)]
    most = np.maximum.reduceat(n_tokens, starts) if len(ends) else n_tokens
    costs = np.zeros(len(ends) + 1, dtype=np.int64)  # of all sentences before
    came: list[int] = []  # where their last group begins
    for at, end in enumerate(ends):
        n_classes = 1 + np.maximum.accumulate(most[at::-1])[::-1]  # for each start
        totals = costs[: at + 1] + n_rows[end - 1] * ((end - starts[: at + 1]) * n_classes + row_cost)
        came.append(int(totals.argmin()))
        costs[at + 1] = totals.min()
    found, at = [], len(ends)
    while at:
        found.append(int(ends[at - 1]))
        at = came[at - 1]
    return found[::-1]
