"""The weights of a Transformer as the graph engine wants them: one precision, aligned sizes, products joined.

D model, H heads, E head size, V vocabulary, L decoder layers; all rounded up with zeros to what tensor cores like,
so that nothing is padded while decoding. Where the true size matters (norms, scale of attention) it is kept beside.
"""

from dataclasses import dataclass, replace
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recoversat.model.aligned import aligned
from recoversat.model.attention import SelfAttention, sinusoids
from recoversat.model.layers import DecoderLayer, EncoderLayer, FeedForward
from recoversat.model.transformer import Transformer
from recoversat.vocab import DEL, NEVER_EMITTED

_VOCABULARY_BLOCK = 128
_Blocks = TypeVar("_Blocks", bound="tuple[Block, ...]")  # of a layer


@dataclass(frozen=True)
class Affine:
    """A linear map."""

    weight: Tensor  # (out, in)
    bias: Tensor  # (out,)


@dataclass(frozen=True)
class Norm:
    """A layer norm over the first `size` places; the rest is and stays 0."""

    weight: Tensor  # (D,)
    bias: Tensor  # (D,)
    size: int
    eps: float


@dataclass(frozen=True)
class Block:
    """A norm and two maps: into and out of attention, or into and out of a feed-forward layer.

    The norm is that of the block's input: post-norm, it belongs to the block before, and the first has none.
    """

    input_norm: Norm | None
    inputs: Affine  # of self-attention: queries, keys and values; only queries where keys come from the source
    output: Affine

    @property
    def norm(self) -> Norm:
        """The norm of a block that has one."""
        assert self.input_norm is not None
        return self.input_norm


@dataclass(frozen=True)
class Sizes:
    """Padded sizes, and the true ones that still matter."""

    d_model: int  # padded
    d_true: int
    n_heads: int
    head: int  # padded
    head_true: int
    vocab: int  # padded
    vocab_true: int
    max_segments: int
    post_norm: bool
    swish: bool  # instead of ReLU
    halves: bool  # of the positional encoding: all sines first

    @property
    def plain(self) -> bool:
        """Whether the layers are those that the kernels for few rows know."""
        return not (self.post_norm or self.swish)

    @property
    def heads(self) -> int:
        """Width of all heads together."""
        return self.n_heads * self.head


@dataclass(frozen=True)
class Weights:
    """All that decoding multiplies with."""

    sizes: Sizes
    embedding: Tensor  # (V, D), already scaled
    segments: Tensor  # (max_segments, D), float32
    encoder: list[tuple[Block, Block]]  # self-attention, feed-forward
    encoder_norm: Norm
    memory: Affine  # (L * 2 * H * E, D): keys and values of the source for every decoder layer
    decoder: list[tuple[Block, Block, Block]]  # self-attention, attention to the source, feed-forward
    decoder_norm: Norm
    vocabulary: Affine  # (V, D); -inf in the bias of what is never written
    single_bias: Tensor  # (V,) the same where K = 1: there is nothing to delete

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    def source_positions(self, length: int) -> Tensor:
        """Return what is added to source embeddings (S, D)."""
        return self._padded_positions(torch.arange(length, device=self.device)).to(self.dtype)

    def row_positions(self, n_rows: int, n_segments: int, same_segment: bool = False) -> Tensor:
        """Return what is added to the rows of a cache (M, D): row r is step r // K of segment r % K."""
        rows = torch.arange(n_rows, device=self.device)
        segments = torch.zeros_like(rows) if same_segment else rows % n_segments  # K may be rounded up
        segments = segments.clamp(max=self.sizes.max_segments - 1)
        steps = torch.div(rows, n_segments, rounding_mode="floor")
        return (self._padded_positions(steps) + self.segments[segments]).to(self.dtype)

    def _padded_positions(self, positions: Tensor) -> Tensor:
        sizes = self.sizes
        return F.pad(sinusoids(positions, sizes.d_true, sizes.halves), (0, sizes.d_model - sizes.d_true))


def collect_weights(model: Transformer, device: torch.device, dtype: torch.dtype) -> Weights:
    return _Collector(model, device, dtype).weights()


class _Collector:
    def __init__(self, model: Transformer, device: torch.device, dtype: torch.dtype) -> None:
        config = model.config
        assert config.vocab_size is not None
        head = config.d_model // config.n_heads
        vocab = -(-config.vocab_size // _VOCABULARY_BLOCK) * _VOCABULARY_BLOCK
        self._model, self._device, self._dtype = model, device, dtype
        self._sizes = Sizes(
            aligned(config.d_model), config.d_model, config.n_heads, aligned(head), head,
            vocab, config.vocab_size, config.max_segments,
            config.norm == "after", config.activation == "swish", config.positions == "halves",
        )  # fmt: skip

    def weights(self) -> Weights:
        model, sizes = self._model, self._sizes
        embedding, table = model.embedding.weight.detach(), (sizes.vocab, sizes.d_model)
        segments = _pad(model.segment_embedding.weight.detach(), (sizes.max_segments, sizes.d_model))
        bias = torch.zeros(sizes.vocab)
        if model.output_bias is not None:
            bias[: sizes.vocab_true] = model.output_bias.detach()
        bias[[*NEVER_EMITTED, *range(sizes.vocab_true, sizes.vocab)]] = -torch.inf
        single = bias.clone()
        single[DEL] = -torch.inf
        encoder = [self._encoder(layer) for layer in model.encoder.stack]
        decoder = [self._decoder(layer) for layer in model.decoder.stack]
        return Weights(
            sizes,
            self._put(embedding * sizes.d_true**0.5, *table),
            segments.to(self._device, torch.float32),
            *self._with_input_norms(encoder, model.encoder.norm),
            self._memory(model.decoder.stack),
            *self._with_input_norms(decoder, model.decoder.norm),
            Affine(self._put(embedding, *table), self._put(bias, sizes.vocab)),
            self._put(single, sizes.vocab),
        )

    def _with_input_norms(self, layers: list[_Blocks], last: nn.Module) -> tuple[list[_Blocks], Norm]:
        """Give each block the norm of its input; return layers and the norm of the output of the last."""
        if not self._sizes.post_norm:
            return layers, self._norm(last)
        norms: list[Norm | None] = [None, *(block.norm for blocks in layers for block in blocks)]
        *before, final = norms
        assert final is not None
        rest = iter(before)
        moved = [tuple(replace(block, input_norm=next(rest)) for block in blocks) for blocks in layers]
        return cast("list[_Blocks]", moved), final

    def _put(self, x: Tensor, *shape: int) -> Tensor:
        """Append zeros up to a shape, and bring it where it is used."""
        return _pad(x.detach(), shape).to(self._device, self._dtype).contiguous()

    def _encoder(self, layer: EncoderLayer) -> tuple[Block, Block]:
        return (
            self._attention(layer.attention_norm, layer.self_attention),
            self._feed(layer.feed_forward_norm, layer.feed_forward),
        )

    def _decoder(self, layer: DecoderLayer) -> tuple[Block, Block, Block]:
        cross = layer.cross_attention
        return (
            self._attention(layer.attention_norm, layer.self_attention),
            Block(self._norm(layer.cross_norm), self._to_heads(cross.query, 1), self._from_heads(cross.output)),
            self._feed(layer.feed_forward_norm, layer.feed_forward),
        )

    def _attention(self, norm: nn.Module, attention: SelfAttention) -> Block:
        return Block(self._norm(norm), self._to_heads(attention.qkv, 3), self._from_heads(attention.output))

    def _feed(self, norm: nn.Module, feed: FeedForward) -> Block:
        hidden, d = aligned(feed.inner.out_features), self._sizes.d_model
        inner = Affine(self._put(feed.inner.weight, hidden, d), self._put(feed.inner.bias, hidden))
        outer = Affine(self._put(feed.outer.weight, d, hidden), self._put(feed.outer.bias, d))
        return Block(self._norm(norm), inner, outer)

    def _memory(self, layers: list[DecoderLayer]) -> Affine:
        parts = [self._to_heads(layer.cross_attention.key_value, 2) for layer in layers]
        return Affine(torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts]))

    def _norm(self, norm: nn.Module) -> Norm:
        assert isinstance(norm, nn.LayerNorm)
        d = self._sizes.d_model
        return Norm(self._put(norm.weight, d), self._put(norm.bias, d), self._sizes.d_true, norm.eps)

    def _to_heads(self, linear: nn.Linear, parts: int) -> Affine:
        """Pad a projection whose output is `parts` times all heads."""
        s = self._sizes
        weight = linear.weight.view(parts, s.n_heads, s.head_true, s.d_true)
        bias = linear.bias.view(parts, s.n_heads, s.head_true)
        wide, narrow = self._put(weight, parts, s.n_heads, s.head, s.d_model), self._put(bias, parts, s.n_heads, s.head)
        return Affine(wide.view(-1, s.d_model), narrow.view(-1))

    def _from_heads(self, linear: nn.Linear) -> Affine:
        """Pad a projection whose input is all heads."""
        s = self._sizes
        weight = self._put(linear.weight.view(s.d_true, s.n_heads, s.head_true), s.d_model, s.n_heads, s.head)
        return Affine(weight.view(s.d_model, -1), self._put(linear.bias, s.d_model))


def _pad(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Append zeros to every dimension up to a shape."""
    padding: list[int] = []
    for have, want in zip(reversed(x.shape), reversed(shape), strict=True):
        padding += [0, want - have]
    return F.pad(x, padding).contiguous()
