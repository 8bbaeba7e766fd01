"""Are the fused kernels right on this machine? A small comparison before they are trusted."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.layers import Layers, Make, ManyRows, logits
from recoversat.engines.cuda.ops import Ops, PlainOps
from recoversat.engines.cuda.session import mask_width
from recoversat.engines.cuda.state import Memory, Rows, SegmentState, rung
from recoversat.engines.cuda.weights import Affine, Weights
from recoversat.vocab import BOS, DEL, N_SPECIAL

_BATCH, _SEGMENTS, _STEPS, _ROOM, _LAYERS = 3, 4, 2, 64, 2
_FORCED = {1: 6, 2: 2}  # sentences, and steps with given tokens: enough for caches that are seen in two parts
_LESS = 3  # rows and source tokens than there may be, so that places are left over
_REPLAYS = 8  # of a graph whose kernels overlap: one that does not wait may be right by chance


def check_ops(fused: Ops, plain: Ops, weights: Weights) -> None:
    """Raise an error where fused operations differ from plain ones, on random numbers in the model's sizes."""
    _check_add_norm(fused, plain, weights)
    _check_choose(fused, plain, weights)
    _check_judge(fused, plain, weights)


def _check_add_norm(fused: Ops, plain: Ops, weights: Weights) -> None:
    sizes, n_rows = weights.sizes, _BATCH * _SEGMENTS
    x, y = _random(n_rows, sizes.d_model, weights), _random(_SEGMENTS, sizes.d_model, weights)
    x[:, sizes.d_true :], y[:, sizes.d_true :] = 0, 0
    mine, theirs = x.clone(), x.clone()
    tolerance = 1e-4 if weights.dtype == torch.float32 else 2e-2
    for more in (y, x.clone()):  # fewer rows than x, and as many
        fused_normed = fused.add_norm(mine, more, weights.decoder_norm)
        plain_normed = plain.add_norm(theirs, more, weights.decoder_norm)
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(fused_normed, plain_normed, rtol=tolerance, atol=tolerance)


def _check_choose(fused: Ops, plain: Ops, weights: Weights) -> None:
    mine, theirs = _state(weights), _state(weights)
    for _ in range(_STEPS):
        logits = _clear_logits(weights)
        logits[::3, DEL] += 90  # where it may be chosen
        fused.choose(logits.clone(), mine)
        plain.choose(logits.clone(), theirs)
    _assert_same_state(mine, theirs)
    torch.testing.assert_close(mine.log_probs, theirs.log_probs, rtol=1e-3, atol=1e-3)


def _check_judge(fused: Ops, plain: Ops, weights: Weights) -> None:
    logits = _clear_logits(weights)
    labels = torch.arange(len(logits), device=weights.device) * 3 + N_SPECIAL
    found = torch.zeros((2, 3, len(logits) + _LESS), device=weights.device)
    for ops, noted in zip((fused, plain), found, strict=True):
        ops.judge(logits.clone(), labels, noted[:, : len(logits)])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
    if not torch.equal(*found[:, 0]):
        raise RuntimeError("the fused judgement of tokens finds others")


def _clear_logits(weights: Weights) -> Tensor:
    """Make logits of some rows, of which each has one best token."""
    logits = _random(_BATCH * _SEGMENTS, weights.sizes.vocab, weights) * 4 + weights.vocabulary.bias
    rows = torch.arange(len(logits), device=weights.device)
    logits[rows, N_SPECIAL + rows * 5 % (weights.sizes.vocab_true - N_SPECIAL)] += 50  # no ties
    return logits


def check_few_rows(weights: Weights, make: Make, n_rows: int, length: int) -> None:
    """Raise an error where kernels for few rows differ from plain torch, in two layers of the model.

    The kernels are those that serve about so many rows of a sentence in a step, and so many source tokens.
    """
    short, sizes = _shortened(weights), (n_rows - _LESS, length - _LESS)
    few, many = make(short), ManyRows(short, PlainOps())
    if few is None:
        raise RuntimeError("two layers do not fit, but all of them do")
    few.compile(partial(_rehearse, few, short, *sizes, n_rows))
    _check_encoder(few, many, short, *sizes)
    _check_hidden(few, many, short, *sizes)
    _check_passes(few, many, short, n_rows, length - _LESS)
    _check_writing(few, many, short, *sizes)


def _rehearse(few: Layers, weights: Weights, n_rows: int, length: int, rows_a_pass: int) -> None:
    """Launch every kernel that is compared."""
    for batch, steps in _FORCED.items():
        trial = _Trial(few, weights, n_rows, length, batch)
        trial.encode()
        for step in range(steps):
            trial.hidden(step)
        trial.write(0)
    for _ in _Trial(few, weights, rows_a_pass, length, batch=1).passes():
        pass


def _shortened(weights: Weights) -> Weights:
    """Leave out all layers but two, through which rounding does not grow."""
    decoder, memory = weights.decoder[:_LAYERS], weights.memory
    n = len(decoder) * 2 * weights.sizes.heads
    return replace(
        weights, encoder=weights.encoder[:_LAYERS], decoder=decoder, memory=Affine(memory.weight[:n], memory.bias[:n])
    )


def _check_encoder(few: Layers, many: Layers, weights: Weights, n_rows: int, length: int) -> None:
    """Compare what is seen of sources."""
    for batch in _FORCED:
        _assert_close(weights, *(_Trial(layers, weights, n_rows, length, batch).encode() for layers in (few, many)))


def _check_hidden(few: Layers, many: Layers, weights: Weights, n_rows: int, length: int) -> None:
    """Compare hidden states and caches of the first steps."""
    for batch, steps in _FORCED.items():
        mine, theirs = (_Trial(layers, weights, n_rows, length, batch) for layers in (few, many))
        for step in range(steps):
            tokens = (torch.arange(batch * n_rows, device=weights.device) + step) % weights.sizes.vocab_true
            _assert_close(weights, *(trial.forced(tokens, step) for trial in (mine, theirs)))
        for one, other in zip(mine.rows.caches, theirs.rows.caches, strict=True):
            _assert_close(weights, one, other)


def _check_passes(few: Layers, many: Layers, weights: Weights, n_rows: int, length: int) -> None:
    """Compare hidden states of passes whose rows see those before them."""
    mine, theirs = (_Trial(layers, weights, n_rows, length, batch=1).passes() for layers in (few, many))
    for one, other in zip(mine, theirs, strict=True):
        _assert_close(weights, one, other)


def _check_writing(few: Layers, many: Layers, weights: Weights, n_rows: int, length: int) -> None:
    """Compare what is chosen, where that is clear, and all that follows from it; in a graph as without one."""
    mine, theirs = _Trial(few, weights, n_rows, length), _Trial(many, weights, n_rows, length)
    for step in range(_STEPS):
        scores = logits(weights, theirs.hidden(step), single=False)
        scores[:n_rows, DEL] = -torch.inf
        mine.write(step)
        tokens = mine.state.log_tokens[step].long()
        _assert_close(weights, scores.gather(1, tokens[:, None])[:, 0], scores.max(dim=1).values)
        best = scores.log_softmax(dim=-1, dtype=torch.float32).max(dim=-1).values
        _assert_close(weights, mine.state.log_probs[step], best)
        PlainOps().choose(scores.scatter(1, tokens[:, None], 1e4), theirs.state)  # there is no doubt
    _assert_same_state(mine.state, theirs.state)
    again = _Trial(few, weights, n_rows, length)
    again.write_captured(_STEPS)
    _assert_same_state(again.state, mine.state)
    _assert_close(weights, again.state.log_probs, mine.state.log_probs)


def _assert_close(weights: Weights, mine: Tensor, theirs: Tensor) -> None:
    tolerance = 1e-3 if weights.dtype == torch.float32 else 5e-2
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def _assert_same_state(mine: SegmentState, theirs: SegmentState) -> None:
    for name in ("active", "tokens", "steps", "rows", "n_active", "log_tokens"):
        if not torch.equal(getattr(mine, name), getattr(theirs, name)):
            raise RuntimeError(f"the fused choice of tokens gives other {name}")
    torch.testing.assert_close(mine.row_mask, theirs.row_mask)


class _Trial:
    """Buffers of some sentences, of which the first has one segment, and steps over them."""

    def __init__(self, layers: Layers, weights: Weights, n_rows: int, length: int, batch: int = 2) -> None:
        sizes, self._layers, self._weights = weights.sizes, layers, weights
        room = _ROOM * -(-max(_FORCED.values()) * n_rows // _ROOM)
        self._memory, self.state = _memory(weights, batch, length), _state(weights, batch, n_rows, room)
        shape = (batch, room, 2, sizes.n_heads, sizes.head)
        caches = [weights.embedding.new_zeros(shape) for _ in weights.decoder]
        self.state.row_mask[:, :n_rows] = 0
        mask = self.state.row_mask[:, None]
        self.rows = Rows(caches, weights.row_positions(room, n_rows), self.state.rows, mask)

    def encode(self) -> Tensor:
        """Return what the decoder sees of the sources."""
        batch, length = self._memory.mask.shape
        src = torch.arange(batch * length, device=self._weights.device) * 7 % self._weights.sizes.vocab_true
        self._layers.encode(src.view(batch, length), self._weights.source_positions(length), self._memory)
        return self._memory.keys_values

    def forced(self, tokens: Tensor, step: int) -> Tensor:
        """Take a step with given tokens; segments end one after the other."""
        newest = torch.arange(self.state.n_segments, device=tokens.device) + step * self.state.n_segments
        self.rows.newest.copy_(newest)
        self.rows.mask[:, :, newest[step:]] = 0
        self.state.tokens.copy_(tokens)
        return self.hidden(step)

    def passes(self) -> Iterator[Tensor]:
        """Return hidden states of passes over given tokens after few and many others, some of which were forgotten."""
        n, device = len(self.rows.newest), self.state.tokens.device
        places = torch.arange(self.rows.caches[0].shape[1], device=device)
        for seen in (0, n - _LESS, 2 * n + 1, 4 * n - _LESS):
            if seen + n > len(places):
                break
            newest = places[seen : seen + n]
            mask = torch.zeros((n, len(places)), dtype=self._weights.dtype, device=device)
            mask.masked_fill_(places > newest[:, None], -torch.inf)
            self.rows.newest.copy_(newest)
            n_seen = min(rung(seen + n, self._layers.ladder), len(places))
            tokens = newest * 5 % self._weights.sizes.vocab_true
            yield self._layers.hidden(tokens, replace(self.rows, mask=mask[None]), n_seen, self._memory)

    def hidden(self, step: int) -> Tensor:
        """Return hidden states of a step with the newest tokens."""
        return self._layers.hidden(self.state.tokens, self.rows, self._seen(step), self._memory)

    def write(self, step: int) -> None:
        """Take a step with the newest tokens, to the choice of the next."""
        self._layers.write(self.state, self.rows, self._seen(step), self._memory)

    def _seen(self, step: int) -> int:
        return (step + 1) * self.state.n_segments

    def write_captured(self, steps: int) -> None:
        """Take some steps from the first one, as one graph where there are graphs, and again and again."""
        state = self.state
        parts = (state.active, state.tokens, state.steps, state.rows, state.n_active, state.row_mask)
        before = [part.clone() for part in parts]

        def run() -> None:
            for part, first in zip(parts, before, strict=True):
                part.copy_(first)
            for step in range(steps):
                self.write(step)

        self._capturer = Capturer(state.tokens.device)  # it and the graph stay until the results have been read
        self._replay = self._capturer.capture(run, before[0])
        for _ in range(_REPLAYS if state.tokens.is_cuda else 1):
            self._replay()


def _memory(weights: Weights, batch: int, length: int) -> Memory:
    """Make sources of which the last is half as long as the others."""
    sizes, n_layers = weights.sizes, len(weights.decoder)
    keys_values = _random(batch * length, n_layers * 2 * sizes.heads, weights)
    memory = Memory(
        keys_values.view(batch, length, n_layers, 2, sizes.n_heads, sizes.head), _mask(weights, batch, length)
    )
    memory.mask[-1, length // 2 :] = -torch.inf
    return memory


def _mask(weights: Weights, *shape: int) -> Tensor:
    return torch.zeros(shape, dtype=weights.dtype, device=weights.device)


def _random(n_rows: int, width: int, weights: Weights) -> Tensor:
    generator = torch.Generator().manual_seed(n_rows)
    return torch.randn(n_rows, width, generator=generator).to(weights.device, weights.dtype)


def _state(weights: Weights, batch: int = _BATCH, n_segments: int = _SEGMENTS, room: int = _ROOM) -> SegmentState:
    """Make the state before the first step; the first sentence has nothing to delete, the last ends at once."""
    n_rows, device = batch * n_segments, weights.device

    def integers(*shape: int, value: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.full(shape, value, dtype=dtype, device=device)

    single = integers(n_rows)
    single[:n_segments] = 1
    limits = integers(n_rows, value=_STEPS + 1)
    limits[-n_segments:] = 1
    mask = torch.full((batch, mask_width(room, n_segments)), -torch.inf, dtype=weights.dtype, device=device)
    return SegmentState(
        single,
        limits,
        integers(n_rows, value=1, dtype=torch.int32),
        integers(n_rows, value=BOS),
        integers(n_rows),
        torch.arange(n_segments, device=device),
        integers(_STEPS, dtype=torch.int32),
        mask,
        integers(_STEPS, 2, n_rows, dtype=torch.int32),
        n_segments,
    )
