"""Appendix A: what goes into encoder and decoder, computed by hand from the printed formulas."""

import math

import torch

from recoversat.config import ModelConfig
from recoversat.model.transformer import Transformer

D = 6
SIZES = ModelConfig(
    d_model=D, d_hidden=8, n_heads=2, encoder_layers=1, decoder_layers=1, dropout=0, max_segments=4, vocab_size=20
)


def printed(position: int) -> list[float]:
    """PE[2i] = sin(pos / 10000^(2i/d)), PE[2i + 1] = cos of the same."""
    angles = [position / 10000 ** (2 * i / D) for i in range(D // 2)]
    return [value for angle in angles for value in (math.sin(angle), math.cos(angle))]


def test_a_row_is_its_token_its_place_in_the_segment_and_its_segment() -> None:
    model = Transformer(SIZES)
    tokens, steps, segments = torch.tensor([[7, 8, 7]]), torch.tensor([[0, 3, 3]]), torch.tensor([[0, 1, 3]])
    (rows,) = model._embed_rows(tokens, steps, segments)
    for row, token, step, segment in zip(rows, (7, 8, 7), (0, 3, 3), (0, 1, 3), strict=True):
        by_hand = model.embedding.weight[token] * math.sqrt(D) + torch.tensor(printed(step))
        torch.testing.assert_close(row, by_hand + model.segment_embedding.weight[segment])


def test_a_source_token_is_its_token_and_its_place_in_the_sentence() -> None:
    model = Transformer(SIZES)
    seen: list[torch.Tensor] = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    tokens = torch.tensor([[7, 8, 9]])
    model.encode(tokens, torch.tensor([[0, 1, 2]]), torch.ones_like(tokens))
    for place, token in enumerate((7, 8, 9)):
        by_hand = model.embedding.weight[token] * math.sqrt(D) + torch.tensor(printed(place))
        torch.testing.assert_close(seen[0][0, place], by_hand)
