"""Encoder and decoder layers, pre-norm unless `norm: after` asks for Marian's post-norm.

B batch, S source, N rows, M cached rows, D model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recoversat.config import ModelConfig
from recoversat.model.aligned import Linear, pad_heads
from recoversat.model.attention import CrossAttention, Seen, SelfAttention


class FeedForward(nn.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_hidden)
        self.outer = Linear(config.d_hidden, config.d_model)
        self.dropout = nn.Dropout(config.activation_dropout)
        self.activate: Callable[[Tensor], Tensor] = F.silu if config.activation == "swish" else torch.relu

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activate(self.inner(x))))


class ResidualLayer(nn.Module):
    """Sub-layers with residual connections, and where their norms are."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.post_norm = config.norm == "after"
        self.dropout = nn.Dropout(config.dropout)

    def add(self, x: Tensor, norm: nn.LayerNorm, sub_layer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x and what a sub-layer makes of it, normalised before or after."""
        if self.post_norm:
            out: Tensor = norm(x + self.dropout(sub_layer(x)))
            return out
        return x + self.dropout(sub_layer(norm(x)))


class EncoderLayer(ResidualLayer):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.self_attention = SelfAttention(config.d_model, config.n_heads, config.attention_dropout)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, allowed: Seen) -> Tensor:
        x = self.add(x, self.attention_norm, lambda rows: self.self_attention(rows, allowed))
        return self.add(x, self.feed_forward_norm, self.feed_forward)


@dataclass
class LayerCache:
    """Keys and values of one decoder layer: of the source, and of the rows written so far."""

    memory_key: Tensor  # (B, H, S, E), with E padded as `attention` likes it
    memory_value: Tensor
    key: Tensor  # (B, H, M, E)
    value: Tensor

    def write(self, at: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put new rows at place `at` and return all rows up to them; doubles its room when full."""
        end = at + key.shape[2]
        while end > self.key.shape[2]:
            self.key = torch.cat([self.key, torch.zeros_like(self.key)], dim=2)
            self.value = torch.cat([self.value, torch.zeros_like(self.value)], dim=2)
        self.key[:, :, at:end, : key.shape[3]] = key
        self.value[:, :, at:end, : key.shape[3]] = value
        return self.key[:, :, :end], self.value[:, :, :end]

    def keep(self, which: Tensor, same_sources: bool = False) -> None:
        """Keep only these members of the batch, in this order (beams may name one twice)."""
        self.key, self.value = self.key[which], self.value[which]
        if not same_sources:
            self.memory_key, self.memory_value = self.memory_key[which], self.memory_value[which]


class DecoderLayer(ResidualLayer):
    """Self-attention over visible rows, attention to the source, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.self_attention = SelfAttention(config.d_model, config.n_heads, config.attention_dropout)
        self.cross_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = CrossAttention(config.d_model, config.n_heads, config.attention_dropout)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, allowed: Seen, memory: Tensor, memory_allowed: Seen) -> Tensor:
        """Run all rows at once, as in training."""
        return self.run_projected(x, allowed, *self.cross_attention.project_memory(memory), memory_allowed)

    def run_projected(self, x: Tensor, allowed: Seen, key: Tensor, value: Tensor, memory_allowed: Seen) -> Tensor:
        """Run all rows at once over a source that was projected before."""
        x = self.add(x, self.attention_norm, lambda rows: self.self_attention(rows, allowed))
        return self._after_self_attention(x, key, value, memory_allowed)

    def start_cache(self, memory: Tensor, room: int) -> LayerCache:
        """Project the source once and make room for the first rows."""
        memory_key, memory_value = map(pad_heads, self.cross_attention.project_memory(memory))
        shape = (*memory_key.shape[:2], room, memory_key.shape[3])
        return LayerCache(memory_key, memory_value, memory_key.new_zeros(shape), memory_key.new_zeros(shape))

    def step(self, x: Tensor, at: int, allowed: Tensor, memory_allowed: Tensor, cache: LayerCache) -> Tensor:
        """Run only the rows of the newest step; earlier ones come from the cache."""

        def attend(rows: Tensor) -> Tensor:
            query, key, value = self.self_attention.project(rows)
            return self.self_attention.attend(query, *cache.write(at, key, value), allowed)

        x = self.add(x, self.attention_norm, attend)
        return self._after_self_attention(x, cache.memory_key, cache.memory_value, memory_allowed)

    def _after_self_attention(self, x: Tensor, key: Tensor, value: Tensor, memory_allowed: Seen) -> Tensor:
        x = self.add(x, self.cross_norm, lambda rows: self.cross_attention(rows, key, value, memory_allowed))
        return self.add(x, self.feed_forward_norm, self.feed_forward)
