"""The RecoverSAT Transformer. With one segment it is the autoregressive teacher: one class for both.

B batch, S source, N rows, K segments, D model, V vocabulary. Rows may be padded or packed: `sentence`
numbers the sentences of a line, 0 is padding, and nothing looks across sentences.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recoversat.config import ModelConfig
from recoversat.model.attention import Seen, sinusoids
from recoversat.model.layers import DecoderLayer, EncoderLayer, LayerCache
from recoversat.model.packed import Spans

Layer = TypeVar("Layer", bound=nn.Module)


class Stack(nn.Module, Generic[Layer]):
    """Layers of one kind with a final norm, unless each ends with its own."""

    def __init__(self, kind: type[Layer], n_layers: int, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(config) for _ in range(n_layers))
        self.norm = nn.Identity() if config.norm == "after" else nn.LayerNorm(config.d_model)

    @property
    def stack(self) -> list[Layer]:
        """The layers, with their own type."""
        return cast("list[Layer]", list(self.layers))

    def forward(self, x: Tensor, *seen: Seen) -> Tensor:
        """Run all layers; `seen` is what each of them looks at."""
        for layer in self.layers:
            x = layer(x, *seen)
        return self.norm(x)


@dataclass
class DecoderCache:
    """All that decoding remembers of the source and of the rows written so far."""

    layers: list[LayerCache]
    memory_allowed: Tensor  # (B, 1, 1, S)
    real: Tensor  # (B, M) which cached rows exist: those of segments that had not ended
    step: int = 0

    def forget(self, rows: int) -> None:
        """Keep only so many rows of the one segment, the first ones."""
        self.real, self.step = self.real[:, :rows], rows

    def keep(self, which: Tensor, same_sources: bool = False) -> None:
        """Keep only these members of the batch, in this order; beams of a sentence share its source."""
        for layer in self.layers:
            layer.keep(which, same_sources)
        self.real = self.real[which]
        if not same_sources:
            self.memory_allowed = self.memory_allowed[which]


class Transformer(nn.Module):
    """Encoder, decoder over rows, and one embedding shared by source, target and output."""

    packed = False  # training meets rows of the same sentence only, by kernels that were found to work

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.vocab_size is not None
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.segment_embedding = nn.Embedding(config.max_segments, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Stack(EncoderLayer, config.encoder_layers, config)
        self.decoder = Stack(DecoderLayer, config.decoder_layers, config)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None  # (V,)
        self.apply(initialise)

    def encode(self, tokens: Tensor, positions: Tensor, sentence: Tensor) -> Tensor:
        """Encode source tokens (B, S) into memory (B, S, D)."""
        x = self.dropout(self._embed(tokens) + self._positions(positions))
        return self.encoder(x, what_is_seen(self, sentence, sentence))

    def decode(
        self, tokens: Tensor, steps: Tensor, segments: Tensor, sentence: Tensor, memory: Tensor, src_sentence: Tensor
    ) -> Tensor:
        """Run all rows (B, N) at once and return their last hidden states (B, N, D)."""
        allowed = what_is_seen(self, sentence, sentence, steps)
        x = self._embed_rows(tokens, steps, segments)
        return self.decoder(x, allowed, memory, what_is_seen(self, sentence, src_sentence))

    def forward(
        self, src_tokens: Tensor, src_positions: Tensor, src_sentence: Tensor,
        tokens: Tensor, steps: Tensor, segments: Tensor, sentence: Tensor,
    ) -> Tensor:  # fmt: skip
        """Return the hidden state of every row, from which `logits` (or the loss) predicts its label."""
        memory = self.encode(src_tokens, src_positions, src_sentence)
        return self.decode(tokens, steps, segments, sentence, memory, src_sentence)

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, N, D) -> (B, N, V), with the shared embedding."""
        return F.linear(hidden, self.embedding.weight, self.output_bias)

    def start(self, memory: Tensor, src_sentence: Tensor, n_segments: int, room_steps: int = 8) -> DecoderCache:
        """Begin decoding: project the source for every layer, no rows yet."""
        layers = [layer.start_cache(memory, room_steps * n_segments) for layer in self.decoder.stack]
        none = memory.new_zeros((len(memory), 0), dtype=torch.bool)
        return DecoderCache(layers, (src_sentence > 0)[:, None, None, :], none)

    def step(self, tokens: Tensor, active: Tensor, cache: DecoderCache) -> Tensor:
        """Append one row for each of the K segments (B, K) and return their hidden states (B, K, D).

        Rows of segments that are not `active` are written but stay invisible.
        """
        steps = torch.full_like(tokens, cache.step)
        segments = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        at = cache.real.shape[1]
        cache.real = torch.cat([cache.real, active], dim=1)
        cache.step += 1
        # a sentence that has ended sees all rows, lest its softmax be empty; nobody looks at it
        allowed = (cache.real | ~active.any(dim=1, keepdim=True))[:, None, None, :]
        return self._run_rows(self._embed_rows(tokens, steps, segments), at, allowed, cache)

    def append(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Append several rows of the one segment (B, N), each of which sees those before it; return (B, N, D)."""
        at, end = cache.step, cache.step + tokens.shape[1]
        steps = torch.arange(at, end, device=tokens.device)
        cache.real = torch.cat([cache.real, torch.ones_like(tokens, dtype=torch.bool)], dim=1)
        cache.step = end
        allowed = torch.arange(end, device=tokens.device) <= steps[:, None]  # (N, M)
        x = self._embed_rows(tokens, steps.expand_as(tokens), torch.zeros_like(tokens))
        return self._run_rows(x, at, allowed[None, None], cache)

    def _run_rows(self, x: Tensor, at: int, allowed: Tensor, cache: DecoderCache) -> Tensor:
        for layer, layer_cache in zip(self.decoder.stack, cache.layers, strict=True):
            x = layer.step(x, at, allowed, cache.memory_allowed, layer_cache)
        return self.decoder.norm(x)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) * self.config.d_model**0.5

    def _positions(self, positions: Tensor) -> Tensor:
        halves = self.config.positions == "halves"
        return sinusoids(positions, self.config.d_model, halves).to(self.embedding.weight.dtype)

    def _embed_rows(self, tokens: Tensor, steps: Tensor, segments: Tensor) -> Tensor:
        position = self._positions(steps) + self.segment_embedding(segments)
        return self.dropout(self._embed(tokens) + position)


def what_is_seen(model: nn.Module, sentence: Tensor, keys: Tensor, steps: Tensor | None = None) -> Seen:
    """Allow a place to look at places of its own sentence, of its own or an earlier step (Eq. 3) where there are steps.

    As a mask (B, 1, N, M), in which padding may look anywhere, as nobody sees it; or as spans, for `packed` models.
    """
    if model.packed and model.training:
        return Spans.of(sentence, keys, steps)
    allowed = (sentence[:, :, None] == keys[:, None, :]) | (sentence == 0)[:, :, None]
    if steps is not None:
        allowed = allowed & (steps[:, None, :] <= steps[:, :, None])
    return allowed[:, None]


def initialise(module: nn.Module) -> None:
    """Draw weights from N(0, 0.02), biases are 0; for `nn.Module.apply`."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
