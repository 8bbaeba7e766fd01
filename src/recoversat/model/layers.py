"""Pre-norm encoder and decoder layers.

B batch, S source, N rows, M cached rows, D model.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recoversat.config import ModelConfig
from recoversat.model.aligned import Linear, pad_heads
from recoversat.model.attention import CrossAttention, Seen, SelfAttention


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_hidden)
        self.outer = Linear(config.d_hidden, config.d_model)
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(torch.relu(self.inner(x))))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.self_attention = SelfAttention(config.d_model, config.n_heads, config.attention_dropout)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, allowed: Seen) -> Tensor:
        x = x + self.dropout(self.self_attention(self.attention_norm(x), allowed))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


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


class DecoderLayer(nn.Module):
    """Self-attention over visible rows, attention to the source, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.self_attention = SelfAttention(config.d_model, config.n_heads, config.attention_dropout)
        self.cross_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = CrossAttention(config.d_model, config.n_heads, config.attention_dropout)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, allowed: Seen, memory: Tensor, memory_allowed: Seen) -> Tensor:
        """Run all rows at once, as in training."""
        return self.run_projected(x, allowed, *self.cross_attention.project_memory(memory), memory_allowed)

    def run_projected(self, x: Tensor, allowed: Seen, key: Tensor, value: Tensor, memory_allowed: Seen) -> Tensor:
        """Run all rows at once over a source that was projected before."""
        x = x + self.dropout(self.self_attention(self.attention_norm(x), allowed))
        return self._after_self_attention(x, key, value, memory_allowed)

    def start_cache(self, memory: Tensor, room: int) -> LayerCache:
        """Project the source once and make room for the first rows."""
        memory_key, memory_value = map(pad_heads, self.cross_attention.project_memory(memory))
        shape = (*memory_key.shape[:2], room, memory_key.shape[3])
        return LayerCache(memory_key, memory_value, memory_key.new_zeros(shape), memory_key.new_zeros(shape))

    def step(self, x: Tensor, at: int, allowed: Tensor, memory_allowed: Tensor, cache: LayerCache) -> Tensor:
        """Run only the rows of the newest step; earlier ones come from the cache."""
        query, key, value = self.self_attention.project(self.attention_norm(x))
        key, value = cache.write(at, key, value)
        x = x + self.self_attention.attend(query, key, value, allowed)
        return self._after_self_attention(x, cache.memory_key, cache.memory_value, memory_allowed)

    def _after_self_attention(self, x: Tensor, key: Tensor, value: Tensor, memory_allowed: Seen) -> Tensor:
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), key, value, memory_allowed))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
