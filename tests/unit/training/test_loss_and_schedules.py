"""The chunked loss equals torch's; schedules and p follow the paper."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from recoversat.config import TrainConfig
from recoversat.data import batching
from recoversat.training import loss, schedules
from recoversat.vocab import PAD


@pytest.mark.parametrize("smoothing", [0.0, 0.15])
@pytest.mark.parametrize("chunk_loss", [loss._chunk_loss, loss._chunk_loss_to_fuse])  # the second is a GPU's
def test_loss_and_gradients_equal_torch(smoothing: float, chunk_loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_chunk_loss", chunk_loss)
    monkeypatch.setattr(loss, "_CPU_CHUNK", 7)  # several chunks, the last one short
    torch.manual_seed(0)
    hidden = torch.randn(4, 10, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(30, 6, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(1, 30, (4, 10))
    labels[1, 3:] = PAD
    ours = loss.smoothed_cross_entropy(hidden, weight, labels, smoothing)
    (ours.smoothed * 0.5).backward()
    gradients = hidden.grad.clone(), weight.grad.clone()
    hidden.grad = weight.grad = None
    logits = (hidden @ weight.T).flatten(0, 1)
    flat = labels.flatten()
    theirs = F.cross_entropy(logits, flat, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
    (theirs * 0.5).backward()
    torch.testing.assert_close(ours.smoothed, theirs.float(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(gradients, (hidden.grad, weight.grad), rtol=1e-5, atol=1e-5)
    plain = F.cross_entropy(logits, flat, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(ours.nll, plain.float(), rtol=1e-5, atol=1e-4)
    assert int(ours.n_labels) == int((labels != PAD).sum())


def test_warmup_reaches_its_peak_and_linear_its_end() -> None:
    config = TrainConfig(steps=100, warmup=10, learning_rate=1.0, final_learning_rate=0.1)
    rates = [schedules.learning_rate(config, 8, update) for update in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == pytest.approx(1.0)
    assert max(rates) == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_p_is_annealed_linearly_or_stays() -> None:
    assert batching.random_prob_at(TrainConfig(steps=10, random_prob=0.5), 5) == 0.25
    assert batching.random_prob_at(TrainConfig(steps=10, random_prob=0.5, anneal=False), 9) == 0.5
    assert batching.random_prob_at(TrainConfig(steps=10), 20) == 0.0
