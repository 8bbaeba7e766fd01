"""Scores of given pairs against a plain computation, one sentence at a time."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.engines.pairs import Pair
from recoversat.engines.torch import scoring
from recoversat.engines.torch.scoring import delete_probs, score_pairs
from recoversat.errors import UserError
from recoversat.model.transformer import Transformer
from recoversat.segments import assemble
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, PAD, UNK
from tests import oracles

V = 19


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=16, d_hidden=24, n_heads=2, encoder_layers=1, decoder_layers=2, max_segments=3, vocab_size=V
    )
    model = Transformer(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(10.0)
    return model


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 14, size=(25, 2)).tolist()
    pairs: list[Pair] = [tuple(rng.integers(N_SPECIAL, V, size=n).tolist() for n in pair) for pair in sizes]
    return [*pairs, ([7, 8], [])]


@torch.inference_mode()
def plainly(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """Ask the model for one token after the other, with the prefix as its only input."""
    src = torch.tensor([source])
    one, positions = torch.ones_like(src), torch.arange(len(source))[None]
    log_probs = []
    for t, token in enumerate([*target, EOS]):
        tokens = torch.tensor([[BOS, *target[:t]]])
        steps = torch.arange(t + 1)[None]
        hidden = model(src, positions, one, tokens, steps, torch.zeros_like(steps), torch.ones_like(steps))
        logits = model.logits(hidden)[0, -1]
        allowed = [i for i in range(V) if i not in (PAD, BOS, UNK, DEL) or i == token]
        log_probs.append(float(logits[token] - logits[allowed].logsumexp(0)))
    return log_probs


def test_scores_are_those_of_asking_token_by_token(model: Transformer, pairs: list[Pair]) -> None:
    for (source, target), score in zip(pairs, score_pairs(model, pairs), strict=True):
        expected = plainly(model, list(source), list(target))
        assert score.log_probs == [pytest.approx(expected, abs=1e-4)]
        assert score.segments == [[*target, EOS]]


@pytest.mark.parametrize("batch_tokens", [1, 30, 100])
def test_the_batch_does_not_matter(
    model: Transformer, pairs: list[Pair], batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = score_pairs(model, pairs)
    monkeypatch.setattr(scoring, "_BATCH_ROWS", batch_tokens)
    order = np.random.default_rng(batch_tokens).permutation(len(pairs)).tolist()
    for at, score in zip(order, score_pairs(model, [pairs[i] for i in order]), strict=True):
        assert score.log_probs == [pytest.approx(whole[at].log_probs[0], abs=1e-4)]


def test_batches_hold_no_more_than_they_may(
    model: Transformer, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    forward = Transformer.forward

    def spy(self: Transformer, *inputs: torch.Tensor) -> torch.Tensor:
        sizes.append(max(inputs[0].numel(), inputs[3].numel()))
        return forward(self, *inputs)

    monkeypatch.setattr(Transformer, "forward", spy)
    monkeypatch.setattr(scoring, "_BATCH_ROWS", 60)
    score_pairs(model, pairs)
    assert max(sizes) <= 60
    assert len(sizes) < len(pairs)


def test_probabilities_of_one_step_sum_to_one(model: Transformer) -> None:
    firsts = [score_pairs(model, [([9, 10], [token])])[0].log_probs[0][0] for token in range(N_SPECIAL, V)]
    ends = score_pairs(model, [([9, 10], [])])[0].log_probs[0][0]
    assert np.exp([*firsts, ends]).sum() == pytest.approx(1.0, abs=1e-5)


def test_an_unknown_token_in_a_target_costs_but_does_not_forbid(model: Transformer) -> None:
    (score,) = score_pairs(model, [([9, 10], [11, UNK, 12])])
    assert score.log_probs == [pytest.approx(plainly(model, [9, 10], [11, UNK, 12]), abs=1e-4)]
    assert np.isfinite(score.log_probs).all()


@pytest.mark.parametrize("n_segments", [2, 3])
@torch.inference_mode()
def test_several_segments_are_scored_as_training_divides_them(model: Transformer, n_segments: int) -> None:
    source, target = [9, 10, 11], [12, 13, 14, 15, 16]
    r = oracles.rows(oracles.divided_evenly(target, n_segments))
    tokens, labels, steps, segments = torch.tensor(r).T
    src, inputs = torch.tensor([source]), [column[None] for column in (tokens, steps, segments)]
    hidden = model(src, torch.arange(3)[None], torch.ones_like(src), *inputs, torch.ones_like(inputs[0]))
    logits = model.logits(hidden)[0]
    logits[:, [PAD, BOS, UNK]] = -torch.inf
    expected = logits.log_softmax(-1)[torch.arange(len(r)), labels]
    (score,) = score_pairs(model, [(source, target)], n_segments=n_segments)
    assert [p for segment in score.log_probs for p in segment] == pytest.approx(expected.tolist(), abs=1e-4)
    assert list(map(len, score.log_probs)) == list(map(len, score.segments))
    assert assemble(score.segments) == target


def test_an_empty_source_is_refused_with_its_number(model: Transformer) -> None:
    with pytest.raises(UserError, match="pair 2: its source is empty"):
        score_pairs(model, [([9], [10]), ([], [10])])


def test_no_pairs_no_scores(model: Transformer) -> None:
    assert score_pairs(model, []) == []


@torch.inference_mode()
def test_del_after_each_token_is_what_the_model_says_step_by_step(model: Transformer, pairs: list[Pair]) -> None:
    for (source, target), found in zip(pairs, delete_probs(model, pairs), strict=True):
        assert len(found) == len(target)
        cache = model.start(model.encode(*_line(source)), torch.ones(1, len(source)), 1)
        for place, token in enumerate([BOS, *target]):
            logits = model.logits(model.append(torch.tensor([[token]]), cache))[0, 0]
            logits[[PAD, BOS, UNK]] = -torch.inf
            if place:
                assert found[place - 1] == pytest.approx(float(logits.softmax(dim=-1)[DEL]), abs=1e-5)


def _line(source: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.tensor([source]), torch.arange(len(source))[None], torch.ones(1, len(source), dtype=torch.long)
