"""Attention over packed lines for training on a GPU: a sentence's rows meet the rows of that sentence and no others.

A line holds many short sentences. With a mask every query meets all keys of its line, ten times as many as it may see;
`Spans` says where the keys of its sentence lie, and kernels of ours (`packed_kernels.py`) go there alone.

B lines, N queries and M keys a line, H heads, E head.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Spans(NamedTuple):
    """Which keys a query sees: those of its sentence, which lie side by side, of its own step or an earlier one."""

    first: Tensor  # (B, N) the first key of a query's sentence
    end: Tensor  # (B, N) where its keys end; 0 for padding, which sees nothing
    key_first: Tensor  # (B, M) the first query of a key's sentence
    key_end: Tensor  # (B, M)
    step: Tensor  # (B, N) of a query; empty where steps do not matter
    key_step: Tensor  # (B, M)

    @classmethod
    def of(cls, sentence: Tensor, key_sentence: Tensor, steps: Tensor | None = None) -> "Spans":
        """Find the spans from the sentence number of every place; 0 is padding.

        >>> spans = Spans.of(torch.tensor([[2, 2, 1, 0]]), torch.tensor([[1, 1, 2, 0, 0]]))
        >>> spans.first.tolist(), spans.end.tolist(), spans.key_first.tolist(), spans.key_end.tolist()
        ([[2, 2, 0, 0]], [[3, 3, 2, 0]], [[2, 2, 0, 0, 0]], [[3, 3, 2, 0, 0]])
        """
        none = torch.empty(0, dtype=torch.int32, device=sentence.device) if steps is None else steps.to(torch.int32)
        return cls(*_where(sentence, key_sentence), *_where(key_sentence, sentence), none, none)


def _where(sentence: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Say where in the lines of `other` (B, M) the sentence of each place (B, N) begins and ends."""
    nobody = max(sentence.shape[1], other.shape[1]) + 1  # a line has no more sentences than places
    places = torch.arange(other.shape[1], device=other.device).expand_as(other)
    edge = torch.ones_like(other[:, :1], dtype=torch.bool)
    changes = other[:, 1:] != other[:, :-1]
    tables = []
    for bounds, value in ((torch.cat([edge, changes], 1), places), (torch.cat([changes, edge], 1), places + 1)):
        number = torch.where(bounds & (other > 0), other, nobody)
        tables.append(places.new_zeros(len(other), nobody + 1).scatter(1, number, value).gather(1, sentence))
    return tables[0].to(torch.int32), tables[1].to(torch.int32)


def packed_attention(query: Tensor, key: Tensor, value: Tensor, spans: Spans) -> Tensor:
    """Mix values by attention: (B, N, H * E) from heads (B, H, N or M, E)."""
    return _attend(query, key, value, *spans)[0].flatten(2)


@torch.library.custom_op("recoversat::packed_attention", mutates_args=())
def _attend(
    query: Tensor, key: Tensor, value: Tensor, first: Tensor, end: Tensor, key_first: Tensor, key_end: Tensor,
    step: Tensor, key_step: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    from recoversat.model.packed_kernels import forward

    return forward(query, key, value, first, end, step, key_step)


@torch.library.custom_op("recoversat::packed_attention_gradient", mutates_args=())
def _gradient(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, log_sum: Tensor, first: Tensor, end: Tensor,
    key_first: Tensor, key_end: Tensor, step: Tensor, key_step: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    from recoversat.model.packed_kernels import backward

    return backward(
        grad.contiguous(), query, key, value, out, log_sum, first, end, key_first, key_end, step, key_step
    )  # fmt: skip


@_attend.register_fake
def _(query: Tensor, key: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
    batch, heads, n_queries, size = query.shape
    out = query.new_empty((batch, n_queries, heads, size))
    return out, query.new_empty((batch, heads, n_queries), dtype=torch.float32)


@_gradient.register_fake
def _(grad: Tensor, query: Tensor, key: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, n_keys, size = key.shape
    of_keys = key.new_empty((batch, n_keys, heads, size))
    return torch.empty_like(grad), of_keys, torch.empty_like(of_keys)


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, *spans = inputs
    ctx.save_for_backward(query, key, value, *output, *spans)


def _pull_back(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    grads = _gradient(grad, *ctx.saved_tensors)
    return *(one.transpose(1, 2) for one in grads), *(None,) * len(Spans._fields)


_attend.register_autograd(_pull_back, setup_context=_remember)
