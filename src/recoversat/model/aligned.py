"""Linear maps and attention at the sizes tensor cores like.

The paper's small model has d = 278 and heads of 139: on a GPU such bf16 products run on kernels made for
unaligned memory, at about a third of the speed. Zeros up to the next multiple of 8 change no result.
"""

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recoversat.model.packed import Spans, packed_attention


def aligned(size: int) -> int:
    """Round up to a multiple of 8.

    >>> aligned(278), aligned(512)
    (280, 512)
    """
    return -(-size // 8) * 8


def pad_last(x: Tensor) -> Tensor:
    """Append zeros to the last dimension up to a multiple of 8."""
    return F.pad(x, (0, aligned(x.shape[-1]) - x.shape[-1]))


class Linear(nn.Linear):
    """`nn.Linear`, with its product done at aligned sizes on a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cuda or (self.in_features % 8 == 0 and self.out_features % 8 == 0):
            return F.linear(x, self.weight, self.bias)
        extra = aligned(self.out_features) - self.out_features
        weight = F.pad(pad_last(self.weight), (0, 0, 0, extra))
        return F.linear(pad_last(x), weight, F.pad(self.bias, (0, extra)))[..., : self.out_features]


def pad_heads(x: Tensor) -> Tensor:
    """Give heads the size that `attention` works with, for keys and values that are used more than once."""
    return pad_last(x) if x.is_cuda else x


def attention(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | Spans, dropout: float) -> Tensor:
    """Mix values by attention: (B, N, D) from heads (B, H, M, E); a mask `allowed` is (B, 1, N or 1, M)."""
    if isinstance(allowed, Spans):
        return packed_attention(query, key, value, allowed)
    size = query.shape[-1]
    if query.is_cuda and size % 8:
        query, key, value = pad_last(query), pad_last(key), pad_last(value)  # nothing to do where they are padded
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, dropout_p=dropout, scale=size**-0.5)
    return mixed[..., :size].transpose(1, 2).flatten(2)
