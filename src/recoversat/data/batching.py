"""From a corpus to batches of rows: which sentences an update takes, divided and packed.

Sentences are packed side by side into lines of fixed length, so nearly nothing is padding and the GPU
meets few shapes. `sentence` numbers the sentences of a line; attention stays inside one number.

B lines, S source places a line, N rows a line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from recoversat.config import TrainConfig
from recoversat.data.corpus import ParallelSentences, Sentences, within
from recoversat.data.drafts import MOST_REPEATED, N_DRAFT_DRAWS, Drafts
from recoversat.data.randomness import derived_seed, uniforms
from recoversat.segments import N_FIXED_DRAWS, Bools, Division, Ints, Rows, deal_many, divide_many
from recoversat.vocab import BOS, DEL, EOS, PAD

WordEnds = Callable[[Ints], Bools]

_SHUFFLE, _DIVIDE = 0, 1  # what a draw is for, folded into the seed
_DRAFT = 2  # the same
_ROUND = 32  # line lengths are multiples of this


@dataclass(frozen=True)
class Batch:
    """Packed lines of source tokens (B, S) and decoder rows (B, N); `sentence` is 0 on padding."""

    src_tokens: Any
    src_positions: Any
    src_sentence: Any
    tokens: Any
    labels: Any
    steps: Any
    segments: Any
    sentence: Any
    n_target_tokens: int

    def to(self, device: Any) -> "Batch":
        """Turn numpy arrays into tensors on a device (or move tensors there)."""
        import torch

        arrays = {name: value for name, value in vars(self).items() if name != "n_target_tokens"}
        moved = {name: torch.as_tensor(value).to(device, non_blocking=True) for name, value in arrays.items()}
        return Batch(**moved, n_target_tokens=self.n_target_tokens)


@dataclass(frozen=True)
class UpdatePlan:
    """Which sentences each optimizer update takes, epoch after epoch."""

    lengths: Ints  # target tokens of each sentence
    batch_tokens: int
    seed: int

    @property
    def updates_per_epoch(self) -> int:
        """Updates in which every sentence is seen once; each takes at least one whole sentence."""
        tokens = max(self.batch_tokens, int(self.lengths.max()))
        return max(1, int(self.lengths.sum()) // tokens)

    def sentences(self, update: int) -> tuple[int, Ints]:
        """Return (epoch, sentence numbers) of one update, counted from 0."""
        epoch, index = divmod(update, self.updates_per_epoch)
        order = _epoch_order(self.seed, epoch, len(self.lengths))
        ends = np.cumsum(self.lengths[order])
        bounds = np.linspace(0, ends[-1], self.updates_per_epoch + 1)[index : index + 2]
        first, last = np.searchsorted(ends, bounds, side="right")
        return epoch, order[first:last]


@dataclass(frozen=True)
class LineShape:
    """How long packed lines are, fixed for a training run so that shapes stay few."""

    src: int
    rows: int

    @classmethod
    def fitting(cls, pairs: ParallelSentences, config: TrainConfig, least: int = 0) -> "LineShape":
        """Make room for the longest sentence, however it is divided, and for `least` rows; balance both sides."""
        choices = config.segment_choices
        repeats = config.repeat_prob > 0 and max(choices) > 1
        longest_rows = int(pairs.tgt.lengths.max()) * (2 if repeats else 1) + max(choices)
        longest_rows += MOST_REPEATED if config.delete_tokens else 0
        n_rows = _round_up(max(longest_rows, least))
        # the source side gets its share, so that both sides of a line fill up together
        copied = config.repeat_prob * np.mean([0.5 / (k - 1) if k > 1 else 0.0 for k in choices])  # half a segment
        typical_rows = pairs.tgt.lengths.mean() * (1 + copied) + np.mean(choices)
        share = n_rows * float(pairs.src.lengths.mean() / typical_rows)
        room = 1.02 if least else 1.05  # many sentences are more alike than few
        return cls(src=_round_up(max(int(pairs.src.lengths.max()), int(room * share))), rows=n_rows)


@dataclass(frozen=True)
class Batches:
    """The training data as a function: update number -> batches. Holds no state, so resuming is free."""

    pairs: ParallelSentences
    config: TrainConfig
    plan: UpdatePlan
    shape: LineShape
    word_ends: WordEnds
    rank: int = 0
    world: int = 1
    dealt: bool = False  # tokens go to segments in turn (SAT)

    @classmethod
    def of(
        cls,
        pairs: ParallelSentences,
        config: TrainConfig,
        word_ends: WordEnds,
        rank: int = 0,
        world: int = 1,
        dealt: bool = False,
        least: int = 0,
    ) -> "Batches":
        """Plan a training run over a corpus, in lines of at least so many rows."""
        plan, shape = (
            UpdatePlan(pairs.tgt.lengths, config.batch_tokens, config.seed),
            LineShape.fitting(pairs, config, least),
        )
        return cls(pairs, config, plan, shape, word_ends, rank, world, dealt)

    def __getitem__(self, update: int) -> list[Batch]:
        """Return this process's share of an update: `accumulate` batches."""
        epoch, chosen = self.plan.sentences(update)
        src, tgt = self.pairs.src.pick(chosen), self.pairs.tgt.pick(chosen)
        drafts = self._drafts(epoch, chosen, tgt) if self.config.delete_tokens else None
        tgt = drafts.tgt if drafts else tgt
        division = self._divide(epoch, chosen, tgt, random_prob_at(self.config, update), drafts)
        return self._pack(src, tgt, division, drafts)

    def _drafts(self, epoch: int, chosen: Ints, tgt: Sentences) -> Drafts:
        draws = uniforms(derived_seed(self.config.seed, _DRAFT), epoch, chosen, N_DRAFT_DRAWS)
        return Drafts.of(tgt, self.config.delete_tokens, draws)

    def _divide(
        self, epoch: int, chosen: Ints, tgt: Sentences, random_prob: float, drafts: Drafts | None = None
    ) -> Division:
        lengths = tgt.lengths
        n_draws = 1 + N_FIXED_DRAWS + int(lengths.max())
        draws = uniforms(self.config.seed * 2 + _DIVIDE, epoch, chosen, n_draws)
        choices = np.array(self.config.segment_choices)
        n_segments = choices[(draws[:, 0] * len(choices)).astype(np.int64)]
        if self.dealt:
            return deal_many(lengths, n_segments)
        if drafts:
            n_segments = np.where(drafts.is_draft, 1, n_segments)
        may_cut = None
        if self.config.cut_at == "word":
            may_cut = np.zeros((len(lengths), int(lengths.max())), dtype=bool)
            may_cut[np.arange(may_cut.shape[1])[None, :] < lengths[:, None]] = self.word_ends(tgt.ids)
        return divide_many(lengths, n_segments, random_prob, self.config.repeat_prob, draws[:, 1:], may_cut)

    def _pack(self, src: Sentences, tgt: Sentences, division: Division, drafts: Drafts | None = None) -> list[Batch]:
        n_rows = np.where(division.exists, division.length + 1, 0).sum(axis=1)
        line, src_place, row_place = _pack_lines(src.lengths, n_rows, self.shape)
        rows, number = _flat_rows(tgt, division, self.config.train_on_copies, drafts), _number_in_line(line)
        src_columns = {"src_tokens": src.ids, "src_positions": within(src.lengths)}
        src_columns["src_sentence"] = np.repeat(number, src.lengths)
        row_columns = vars(rows) | {"sentence": np.repeat(number, n_rows)}
        shares, first = self.world * self.config.accumulate, self.rank * self.config.accumulate
        batches = []
        for share in range(first, first + self.config.accumulate):
            mine = line % shares == share
            n_lines = max(1, -(-(int(line.max()) + 1 - share) // shares))
            lay = partial(_lay, mine, line // shares, n_lines)
            columns = lay(self.shape.src, src_place, src.lengths, src_columns)
            columns |= lay(self.shape.rows, row_place, n_rows, row_columns)
            batches.append(Batch(**columns, n_target_tokens=int(tgt.lengths[mine].sum())))
        return batches


def random_prob_at(config: TrainConfig, update: int) -> float:
    """Return p at an update: constant, or annealed linearly to 0 (Section 3.2.1).

    >>> [random_prob_at(TrainConfig(steps=100), step) for step in (0, 50, 100)]
    [1.0, 0.5, 0.0]
    """
    remaining = max(1 - update / config.falls_until, 0.0) if config.anneal else 1.0
    return config.random_prob * remaining


@lru_cache(maxsize=2)
def _epoch_order(seed: int, epoch: int, n_sentences: int) -> Ints:
    keys = uniforms(seed * 2 + _SHUFFLE, epoch, np.arange(n_sentences), 1)[:, 0]
    return np.argsort(keys, kind="stable")


def _flat_rows(tgt: Sentences, division: Division, train_on_copies: bool, drafts: Drafts | None = None) -> Rows:
    """Do what `segments.rows` does, for a whole batch of divided targets."""
    sentence, segment = np.nonzero(division.exists)
    length = division.length[division.exists]
    first_token = tgt.offsets[sentence] + division.start[division.exists]
    is_copy = division.is_copy[division.exists]
    counts = length + 1
    steps = within(counts)
    stride = np.repeat(division.stride[sentence], counts)
    here = np.repeat(first_token, counts) + steps * stride  # the token a row predicts, but for its last row
    closes = steps == np.repeat(length, counts)
    copied = np.repeat(is_copy, counts)
    last = len(tgt.ids) - 1
    tokens = np.where(steps == 0, BOS, tgt.ids[np.clip(here - stride, 0, last)])
    labels = np.where(closes, np.where(copied, DEL, EOS), tgt.ids[np.minimum(here, last)])
    if not train_on_copies:
        labels[copied & ~closes] = PAD
    if drafts:
        labels = drafts.relabel(labels, np.where(steps == 0, -1, here - 1), np.repeat(sentence, counts))
    return Rows(tokens, labels, steps, np.repeat(segment, counts))


def _pack_lines(n_src: Ints, n_rows: Ints, shape: LineShape) -> tuple[Ints, Ints, Ints]:
    """Give each sentence a line and its places there: longest first, into the first line with room."""
    n = len(n_src)
    line, src_place, row_place = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    src_used, rows_used = np.zeros(n, np.int64), np.zeros(n, np.int64)
    opened = full = 0  # lines below `full` have no room for even the shortest sentence
    shortest = int(n_rows.min(initial=1))
    for i in np.argsort(-n_rows, kind="stable"):
        fits = (src_used[full:opened] + n_src[i] <= shape.src) & (rows_used[full:opened] + n_rows[i] <= shape.rows)
        at = full + int(np.argmax(fits)) if fits.any() else opened
        opened = max(opened, at + 1)
        line[i], src_place[i], row_place[i] = at, src_used[at], rows_used[at]
        src_used[at] += n_src[i]
        rows_used[at] += n_rows[i]
        while full < opened and rows_used[full] + shortest > shape.rows:
            full += 1
    return line, src_place, row_place


def _number_in_line(line: Ints) -> Ints:
    """Number the sentences of each line from 1."""
    number = np.empty_like(line)
    number[np.argsort(line, kind="stable")] = within(np.bincount(line)) + 1
    return number


def _lay(
    mine: Bools, line: Ints, n_lines: int, width: int, place: Ints, lengths: Ints, columns: dict[str, Ints]
) -> dict[str, Ints]:
    """Lay out columns, a value a token, on lines (n_lines, width); only those of the sentences that are `mine`."""
    own = np.repeat(mine, lengths)
    at = (np.repeat(line * width + place, lengths) + within(lengths))[own]
    canvas = {name: np.zeros(n_lines * width, dtype=np.int64) for name in columns}
    for name, values in columns.items():
        canvas[name][at] = values[own]
    return {name: laid.reshape(n_lines, width) for name, laid in canvas.items()}


def _round_up(n: int) -> int:
    return -(-n // _ROUND) * _ROUND
