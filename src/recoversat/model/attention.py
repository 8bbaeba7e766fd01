"""Multi-head attention with explicit keys, values and masks; caches live outside the modules.

B batch, N queries, M keys, D model, H heads, E = D / H.
"""

import torch
from torch import Tensor, nn

from recoversat.model.aligned import Linear, attention
from recoversat.model.packed import Spans

Seen = Tensor | Spans  # which keys a query sees: a mask, or where they lie in packed lines


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, N, D) -> (B, H, N, E)"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


class SelfAttention(nn.Module):
    """Attention of rows to rows, with one fused projection."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.qkv = Linear(d_model, 3 * d_model)
        self.output = Linear(d_model, d_model)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of the rows x, each (B, H, N, E)."""
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        return split_heads(query, self.n_heads), split_heads(key, self.n_heads), split_heads(value, self.n_heads)

    def forward(self, x: Tensor, allowed: Seen) -> Tensor:
        return self.attend(*self.project(x), allowed)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Seen) -> Tensor:
        """Mix values by attention; a mask `allowed` is (B, 1, N or 1, M)."""
        return self.output(attention(query, key, value, allowed, self.dropout if self.training else 0.0))


class CrossAttention(nn.Module):
    """Attention of decoder rows to the encoded source, whose keys and values are projected once."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.query = Linear(d_model, d_model)
        self.key_value = Linear(d_model, 2 * d_model)
        self.output = Linear(d_model, d_model)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the encoded source, each (B, H, S, E)."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return split_heads(key, self.n_heads), split_heads(value, self.n_heads)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, allowed: Seen) -> Tensor:
        query = split_heads(self.query(x), self.n_heads)
        return self.output(attention(query, key, value, allowed, self.dropout if self.training else 0.0))


def sinusoids(positions: Tensor, d_model: int, halves: bool = False) -> Tensor:
    """Return the paper's positional encoding (Appendix A): sines at even, cosines at odd places.

    With `halves` all sines come first, then all cosines, as in Marian.
    """
    frequencies = 10_000.0 ** (-torch.arange(0, d_model, 2, device=positions.device) / d_model)
    angles = positions.unsqueeze(-1) * frequencies
    if halves:
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
