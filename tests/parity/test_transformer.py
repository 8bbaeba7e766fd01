"""One model class: with one segment it is torch's Transformer; with a cache, packed or padded it stays the same."""

import numpy as np
import pytest
import torch
from torch import nn

from recoversat.config import ModelConfig, TrainConfig
from recoversat.data.batching import Batches
from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.engines.positions import sinusoids as onnx_sinusoids
from recoversat.model.attention import sinusoids
from recoversat.model.transformer import Transformer
from recoversat.segments import rows
from recoversat.training.loss import smoothed_cross_entropy
from recoversat.vocab import BOS, EOS, PAD
from tests import oracles

CONFIG = ModelConfig(d_model=24, d_hidden=40, n_heads=3, encoder_layers=2, decoder_layers=3, vocab_size=50, dropout=0.0)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    model = Transformer(CONFIG).double().eval()
    for parameter in model.parameters():  # far from the tame start, so that mistakes show
        parameter.data += torch.randn_like(parameter) * 0.3
    return model


def full_pass(model: Transformer, sources: list[list[int]], targets: list[list[list[int]]]) -> list[torch.Tensor]:
    """Logits of every sentence's rows from one padded parallel pass."""
    laid = [rows(segments) for segments in targets]

    def pad(columns: list) -> torch.Tensor:
        width = max(len(column) for column in columns)
        return torch.tensor([[*column, *[0] * (width - len(column))] for column in columns])

    src, real = pad(sources), pad([[1] * len(source) for source in sources])
    memory = model.encode(src, torch.arange(src.shape[1]).expand_as(src), real)
    hidden = model.decode(
        pad([r.tokens for r in laid]), pad([r.steps for r in laid]), pad([r.segments for r in laid]),
        pad([[1] * len(r.tokens) for r in laid]), memory, real,
    )  # fmt: skip
    return [model.logits(h[: len(r.tokens)]) for h, r in zip(hidden, laid, strict=True)]


def random_pairs(n: int, k: int, seed: int = 0) -> tuple[list[list[int]], list[list[list[int]]]]:
    rng = np.random.default_rng(seed)
    sources = [rng.integers(5, 50, size=rng.integers(1, 12)).tolist() for _ in range(n)]
    targets = [rng.integers(5, 50, size=rng.integers(1, 25)).tolist() for _ in range(n)]
    return sources, [
        oracles.divided_by(target, k, 0.7, 0.5, rng.random(4 + len(target)).tolist()) for target in targets
    ]


def test_one_segment_equals_torch_transformer(model: Transformer) -> None:
    reference = nn.Transformer(
        24, 3, 2, 3, 40, dropout=0.0, batch_first=True, norm_first=True, dtype=torch.float64
    ).eval()  # fmt: skip
    copy_weights(model, reference)
    src = torch.randint(5, 50, (1, 7))
    target = torch.randint(5, 50, (9,)).tolist()
    (ours,) = full_pass(model, src.tolist(), [[[*target, EOS]]])

    def embed(tokens: torch.Tensor) -> torch.Tensor:
        return model.embedding(tokens) * 24**0.5 + sinusoids(torch.arange(tokens.shape[1]), 24)

    tgt = embed(torch.tensor([[BOS, *target]])) + model.segment_embedding.weight[0]
    causal = nn.Transformer.generate_square_subsequent_mask(10, dtype=torch.float64)
    theirs = reference(embed(src), tgt, tgt_mask=causal) @ model.embedding.weight.T
    torch.testing.assert_close(ours, theirs[0])


def test_positions_are_those_printed_in_appendix_a() -> None:
    by_hand = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.010000, 0.999950],  # sin 1, cos 1, sin 1/100, cos 1/100
        [0.909297, -0.416147, 0.019999, 0.999800],  # sin 2, cos 2, sin 2/100, cos 2/100
    ]
    np.testing.assert_allclose(sinusoids(torch.arange(3), 4), by_hand, atol=1e-6)
    np.testing.assert_allclose(onnx_sinusoids(3, 4), by_hand, atol=1e-6)


@pytest.mark.parametrize("kept", [1.0, 0.0])
def test_dropout_takes_inputs_and_sub_layers_but_not_what_passes_by_them(model: Transformer, kept: float) -> None:
    """Where every sub-layer is dropped, a stack gives back its input; where that is dropped too, nothing is left."""
    for stack in (model.encoder, model.decoder):
        for module in stack.modules():
            if isinstance(module, nn.Dropout):
                module.p = 1.0
    model.dropout.p = 1 - kept
    model.train()
    src, r = torch.randint(5, 50, (1, 7)), rows([[7, 8, 9, EOS], [10, EOS]])
    one, tokens, steps, segments = torch.ones_like(src), *(torch.from_numpy(x) for x in (r.tokens, r.steps, r.segments))
    memory = model.encode(src, torch.arange(7)[None], one)
    passed_by = kept * (model.embedding(src) * 24**0.5 + sinusoids(torch.arange(7), 24))
    torch.testing.assert_close(memory, model.encoder.norm(passed_by))
    hidden = model.decode(tokens[None], steps[None], segments[None], torch.ones_like(tokens)[None], memory, one)
    passed_by = model.embedding(tokens) * 24**0.5 + sinusoids(steps, 24) + model.segment_embedding(segments)
    torch.testing.assert_close(hidden[0], model.decoder.norm(kept * passed_by))


@pytest.mark.parametrize("attention_dropout", [0.0, 0.5])
def test_attention_has_a_dropout_of_its_own(attention_dropout: float) -> None:
    torch.manual_seed(0)
    model = Transformer(CONFIG.model_copy(update={"dropout": 0.5, "attention_dropout": attention_dropout}))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    trained, tested = (full_pass(model.train(mode), *random_pairs(1, 2))[0] for mode in (True, False))
    assert torch.allclose(trained, tested) == (attention_dropout == 0)


def copy_weights(model: Transformer, reference: nn.Transformer) -> None:
    def attention(ours: nn.Module, theirs: nn.MultiheadAttention, weight: torch.Tensor, bias: torch.Tensor) -> None:
        theirs.in_proj_weight.data, theirs.in_proj_bias.data = weight, bias
        theirs.out_proj.load_state_dict(ours.output.state_dict())

    def feed_forward(ours: nn.Module, theirs: nn.Module) -> None:
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())

    for ours, theirs in zip(model.encoder.layers, reference.encoder.layers, strict=True):
        attention(
            ours.self_attention,
            theirs.self_attn,
            ours.self_attention.qkv.weight.data,
            ours.self_attention.qkv.bias.data,
        )
        feed_forward(ours, theirs)
        theirs.norm1.load_state_dict(ours.attention_norm.state_dict())
        theirs.norm2.load_state_dict(ours.feed_forward_norm.state_dict())
    for ours, theirs in zip(model.decoder.layers, reference.decoder.layers, strict=True):
        attention(
            ours.self_attention,
            theirs.self_attn,
            ours.self_attention.qkv.weight.data,
            ours.self_attention.qkv.bias.data,
        )
        cross = ours.cross_attention
        weight = torch.cat([cross.query.weight, cross.key_value.weight]).data
        bias = torch.cat([cross.query.bias, cross.key_value.bias]).data
        attention(cross, theirs.multihead_attn, weight, bias)
        feed_forward(ours, theirs)
        for name, norm in (("norm1", "attention_norm"), ("norm2", "cross_norm"), ("norm3", "feed_forward_norm")):
            getattr(theirs, name).load_state_dict(getattr(ours, norm).state_dict())
    reference.encoder.norm.load_state_dict(model.encoder.norm.state_dict())
    reference.decoder.norm.load_state_dict(model.decoder.norm.state_dict())


@pytest.mark.parametrize("k", [1, 2, 10])
def test_cached_steps_equal_the_full_pass(model: Transformer, k: int) -> None:
    sources, targets = random_pairs(5, k)
    expected = full_pass(model, sources, targets)
    width = max(len(source) for source in sources)
    src = torch.tensor([[*source, *[PAD] * (width - len(source))] for source in sources])
    real = (src != PAD).long()
    memory = model.encode(src, torch.arange(width).expand_as(src), real)
    cache = model.start(memory, real, k, room_steps=1)  # must grow on the way
    laid = [rows(segments) for segments in targets]
    for step in range(max(int(r.steps.max()) for r in laid) + 1):
        tokens, active = torch.zeros((5, k), dtype=torch.long), torch.zeros((5, k), dtype=torch.bool)
        for b, r in enumerate(laid):
            now = r.steps == step
            tokens[b, r.segments[now]] = torch.from_numpy(r.tokens[now])
            active[b, r.segments[now]] = True
        logits = model.logits(model.step(tokens, active, cache))
        for b, r in enumerate(laid):
            now = r.steps == step
            torch.testing.assert_close(logits[b, r.segments[now]], expected[b][now])


def test_cache_survives_reordering(model: Transformer) -> None:
    src = torch.randint(5, 50, (3, 6))
    memory = model.encode(src, torch.arange(6).expand_as(src), torch.ones_like(src))
    cache, same = (model.start(memory, torch.ones_like(src), 2) for _ in range(2))
    active = torch.ones((3, 2), dtype=torch.bool)
    first, second = torch.full((3, 2), BOS), torch.tensor([[7, 8], [9, 10], [11, 12]])
    order = torch.tensor([2, 0, 0])
    for c in (cache, same):
        model.step(first, active, c)
    expected = model.step(second, active, same)
    cache.keep(order)
    torch.testing.assert_close(model.step(second[order], active, cache), expected[order])


def test_the_order_of_rows_does_not_matter(model: Transformer) -> None:
    sources, (segments,) = random_pairs(1, 4)
    r = rows(segments)
    (expected,) = full_pass(model, sources, [segments])
    shuffled = torch.randperm(len(r.tokens))
    src = torch.tensor(sources)
    memory = model.encode(src, torch.arange(src.shape[1])[None], torch.ones_like(src))
    columns = [torch.from_numpy(column)[shuffled][None] for column in (r.tokens, r.steps, r.segments)]
    hidden = model.decode(*columns, torch.ones(1, len(shuffled)), memory, torch.ones_like(src))
    torch.testing.assert_close(model.logits(hidden[0]), expected[shuffled])


def test_a_sentence_does_not_feel_its_neighbours_nor_padding(model: Transformer) -> None:
    sources, targets = random_pairs(6, 3)
    together = full_pass(model, sources, targets)
    for source, segments, expected in zip(sources, targets, together, strict=True):
        (alone,) = full_pass(model, [source], [segments])
        torch.testing.assert_close(alone, expected)


@pytest.mark.parametrize("k", [1, 4])
def test_packed_loss_is_the_sum_of_the_sentences_losses(model: Transformer, k: int) -> None:
    rng = np.random.default_rng(2)
    sides = [[rng.integers(5, 50, size=rng.integers(1, 15)).tolist() for _ in range(20)] for _ in range(2)]
    pairs = ParallelSentences(Sentences.of(sides[0]), Sentences.of(sides[1]))
    config = TrainConfig(segments=k, batch_tokens=10_000, repeat_prob=0.0, random_prob=0.0)
    batch = Batches.of(pairs, config, lambda ids: ids > 0)[0][0].to("cpu")
    hidden = model(
        batch.src_tokens, batch.src_positions, batch.src_sentence,
        batch.tokens, batch.steps, batch.segments, batch.sentence,
    )  # fmt: skip
    packed = smoothed_cross_entropy(hidden, model.embedding.weight, batch.labels, 0.1)
    total = torch.zeros((), dtype=torch.float64)
    for source, target in zip(*sides, strict=True):
        segments = oracles.divided_evenly(target, k)
        (logits,) = full_pass(model, [source], [segments])
        labels = torch.tensor([row.label for row in oracles.rows(segments)])
        total += nn.functional.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(packed.smoothed.double(), total, rtol=1e-5, atol=1e-4)


def test_visible_rows_are_those_of_the_paper(model: Transformer) -> None:
    """Eq. 3: another token in a row changes the rows that see it, and no other."""
    (source,), (segments,) = random_pairs(1, 4, seed=3)
    r = oracles.rows(segments)
    src, (tokens, _, steps, owners) = torch.tensor([source]), torch.tensor(r).T
    assert len({row.segment for row in r}) == 4
    memory = model.encode(src, torch.arange(len(source))[None], torch.ones_like(src))

    def hidden(tokens: torch.Tensor) -> torch.Tensor:
        columns = [column[None] for column in (tokens, steps, owners, torch.ones_like(tokens))]
        return model.decode(*columns, memory, torch.ones_like(src))[0]

    before = hidden(tokens)
    for at, key in enumerate(r):
        other = tokens.clone()
        other[at] = 49 if tokens[at] != 49 else 48
        changed = (hidden(other) - before).abs().sum(dim=-1) > 1e-9
        assert changed.tolist() == [oracles.sees(query, key) for query in r]
