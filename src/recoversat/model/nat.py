"""The one-step baseline (NAT, Section 2.2): all target tokens at once, independently of each other.

Encoder, decoder layers, sizes and the shared embedding are those of `Transformer`, under the same names, so a
NAT starts from a teacher in the same way. What differs: a row's input is a source token copied to its target
position, rows of a sentence all see each other, and the target length is predicted from the source.

B batch, S source, N rows, M sentences a line, D model, C length classes, V vocabulary. Rows may be padded or
packed as in `Transformer`; row (b, n) writes target position steps[b, n], and a sentence has no row for EOS.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recoversat.config import ModelConfig
from recoversat.model.attention import sinusoids
from recoversat.model.layers import DecoderLayer, EncoderLayer
from recoversat.model.transformer import Stack, initialise, what_is_seen

# A target's length is predicted as its difference to the source's, clipped to +-64: in training data the
# difference hardly ever exceeds it (pairs of at most 128 tokens and a ratio of at most 3).
MAX_LENGTH_CHANGE = 64


class NatTransformer(nn.Module):
    """Predict the target's length, copy the source to it, translate all positions in one pass."""

    packed = False  # as of `Transformer`

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.vocab_size is not None
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Stack(EncoderLayer, config.encoder_layers, config)
        self.decoder = Stack(DecoderLayer, config.decoder_layers, config)
        if self.n_length_classes:  # targets of CTC are as long as what remains of its path
            self.length = nn.Linear(config.d_model, self.n_length_classes)
        self.apply(initialise)

    @property
    def n_length_classes(self) -> int:
        """How many differences of length are told apart; 0 where none is predicted."""
        return 0 if self.config.kind == "ctc" else 2 * MAX_LENGTH_CHANGE + 1

    def encode(self, tokens: Tensor, positions: Tensor, sentence: Tensor) -> Tensor:
        """Encode source tokens (B, S) into memory (B, S, D)."""
        return self.encoder(self._embed(tokens, positions), what_is_seen(self, sentence, sentence))

    def length_logits(self, memory: Tensor, src_sentence: Tensor, n_sentences: int) -> Tensor:
        """Predict the length of sentences 1 .. M of each line from their mean memory: (B, M, C)."""
        numbers = torch.arange(1, n_sentences + 1, device=memory.device)
        owned = (src_sentence[:, None, :] == numbers[None, :, None]).to(memory.dtype)  # (B, M, S)
        mean = owned @ memory / owned.sum(dim=-1, keepdim=True).clamp(min=1)  # (B, M, D)
        return self.length(mean)

    def decode(self, tokens: Tensor, steps: Tensor, sentence: Tensor, memory: Tensor, src_sentence: Tensor) -> Tensor:
        """Run all rows (B, N) at once, whatever tokens they carry, and return their last hidden states (B, N, D)."""
        allowed, memory_allowed = what_is_seen(self, sentence, sentence), what_is_seen(self, sentence, src_sentence)
        return self.decoder(self._embed(tokens, steps), allowed, memory, memory_allowed)

    def project(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values of a source for each decoder layer, which every pass over it needs."""
        return [layer.cross_attention.project_memory(memory) for layer in self.decoder.stack]

    def decode_projected(
        self,
        tokens: Tensor,
        steps: Tensor,
        sentence: Tensor,
        memory: Sequence[tuple[Tensor, Tensor]],
        src_sentence: Tensor,
    ) -> Tensor:
        """Do as `decode` with what `project` returned."""
        allowed, memory_allowed = what_is_seen(self, sentence, sentence), what_is_seen(self, sentence, src_sentence)
        x = self._embed(tokens, steps)
        for layer, (key, value) in zip(self.decoder.stack, memory, strict=True):
            x = layer.run_projected(x, allowed, key, value, memory_allowed)
        return self.decoder.norm(x)

    def forward(
        self, src_tokens: Tensor, src_positions: Tensor, src_sentence: Tensor, steps: Tensor, sentence: Tensor,
        tokens: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return the hidden state of every row (B, N, D) and the length logits of every sentence (B, S, C).

        Rows carry copies of the source unless other `tokens` are given. A line has at most S sentences; fixing M = S
        keeps the shapes of a training run fixed.
        """
        memory = self.encode(src_tokens, src_positions, src_sentence)
        if tokens is None:
            tokens = src_tokens.gather(1, copied_places(src_positions, src_sentence, steps, sentence))
        hidden = self.decode(tokens, steps, sentence, memory, src_sentence)
        return hidden, self.length_logits(memory, src_sentence, src_sentence.shape[1])

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, N, D) -> (B, N, V), with the shared embedding and no bias."""
        return F.linear(hidden, self.embedding.weight)

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        width = self.config.d_model
        position = sinusoids(positions, width).to(self.embedding.weight.dtype)
        return self.dropout(self.embedding(tokens) * width**0.5 + position)


def copied_places(src_positions: Tensor, src_sentence: Tensor, steps: Tensor, sentence: Tensor) -> Tensor:
    """Find the source place each row copies: position round(j * S / T) for target position j (uniform copy).

    >>> one = lambda n: torch.ones(1, n, dtype=torch.long)
    >>> copied_places(torch.arange(3)[None], one(3), torch.arange(6)[None], one(6)).tolist()
    [[0, 1, 1, 2, 2, 2]]
    """
    own_source = sentence[:, :, None] == src_sentence[:, None, :]  # (B, N, S)
    src_length = own_source.sum(dim=-1)  # (B, N)
    tgt_length = (sentence[:, :, None] == sentence[:, None, :]).sum(dim=-1)
    nearest = (2 * steps * src_length + tgt_length) // (2 * tgt_length)  # rounds half up, in integers
    wanted = nearest.minimum(src_length - 1)
    found = own_source & (src_positions[:, None, :] == wanted[:, :, None])
    return found.to(torch.uint8).argmax(dim=-1)  # padding finds nothing and copies place 0, unseen


def upsampled(
    src_tokens: Tensor, src_positions: Tensor, src_sentence: Tensor, times: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Repeat every source token: return tokens, steps and sentence numbers of the rows of CTC, each (B, times * S).

    >>> upsampled(torch.tensor([[7, 8]]), torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.long), 2)[:2]
    (tensor([[7, 7, 8, 8]]), tensor([[0, 1, 2, 3]]))
    """
    tokens, positions, sentence = (
        values.repeat_interleave(times, dim=1) for values in (src_tokens, src_positions, src_sentence)
    )
    return tokens, positions * times + torch.arange(tokens.shape[1], device=tokens.device) % times, sentence


def length_classes(src_lengths: Tensor, tgt_lengths: Tensor) -> Tensor:
    """Number the length differences from 0.

    >>> length_classes(torch.tensor([10, 10, 200]), torch.tensor([10, 7, 1])).tolist()
    [64, 61, 0]
    """
    return (tgt_lengths - src_lengths).clamp(-MAX_LENGTH_CHANGE, MAX_LENGTH_CHANGE) + MAX_LENGTH_CHANGE


def likeliest_lengths(length_logits: Tensor, src_lengths: Tensor, n: int) -> Tensor:
    """Turn the n likeliest classes back into target lengths (..., n), at least 1, best first."""
    classes = length_logits.topk(min(n, length_logits.shape[-1]), dim=-1).indices
    return (src_lengths[..., None] + classes - MAX_LENGTH_CHANGE).clamp(min=1)
