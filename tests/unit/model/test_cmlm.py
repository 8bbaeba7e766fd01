"""CMLM: how many tokens are masked, and what is predicted from what."""

import numpy as np
import pytest
import torch

from recoversat.engines.engine import Options
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.nat import TorchNatEngine
from recoversat.errors import UserError
from recoversat.model.transformer import Transformer
from recoversat.training.loss import smoothed_cross_entropy
from recoversat.training.masking import draw_masks
from recoversat.training.nat import length_loss
from recoversat.training.objective import batch_loss
from recoversat.vocab import MASK, PAD
from tests.unit.model.one_pass import CPU, config_of, one_by_one, opinionated, random_pairs

CONFIG = config_of("cmlm")


def test_one_to_all_tokens_of_a_sentence_are_masked_each_number_equally_often() -> None:
    torch.manual_seed(0)
    sentence = torch.tensor([[1, 1, 1, 1, 2, 2, 0], [1, 2, 2, 2, 3, 0, 0]]).repeat(2000, 1)
    masked = draw_masks(sentence)
    assert not masked[sentence == 0].any()
    for line, number, length in ((0, 1, 4), (0, 2, 2), (1, 1, 1), (1, 2, 3), (1, 3, 1)):
        counts = (masked[line::2] & (sentence[line::2] == number)).sum(dim=1)
        shares = torch.bincount(counts, minlength=length + 1) / len(counts)
        assert shares.tolist() == pytest.approx([0.0] + [1 / length] * length, abs=0.05)
    places = masked[::2, :4].float().mean(dim=0)  # 2.5 of 4 on average, wherever they stand
    assert places.tolist() == pytest.approx([0.625] * 4, abs=0.04)


def test_masked_tokens_are_predicted_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = opinionated(CONFIG, 1)
    (batch,) = one_by_one([[7, 8, 9]], [[10, 11, 12]])
    masked = torch.tensor([[False, True, True]])
    monkeypatch.setattr("recoversat.training.masking.draw_masks", lambda sentence: masked)
    seen, plain = [], model.decode
    monkeypatch.setattr(model, "decode", lambda tokens, *rest: (seen.append(tokens), plain(tokens, *rest))[1])
    with torch.no_grad():
        loss = batch_loss(model, batch, 0.1, False)
        assert seen[0].tolist() == [[10, MASK, MASK]]
        hidden, lengths = model(
            batch.src_tokens, batch.src_positions, batch.src_sentence, batch.steps, batch.sentence, seen[0]
        )
        tokens = smoothed_cross_entropy(hidden, model.embedding.weight, torch.tensor([[PAD, 11, 12]]), 0.1)
        length, _ = length_loss(lengths, batch.src_sentence, batch.sentence)
    assert float(loss.smoothed) == pytest.approx(float(tokens.smoothed + length), rel=1e-5)
    assert int(loss.n_labels) == 3  # two tokens and a length


@pytest.mark.parametrize("size", [1, 5])
def test_sentences_do_not_notice_their_batch(size: int) -> None:
    engine, options = TorchNatEngine(opinionated(CONFIG, 4), CPU), Options(iterations=4, lengths=3)
    sources, _ = random_pairs(15, seed=5)
    whole = engine.decode(sources, np.ones(15), options)
    assert len({len(one.segments[0]) for one in whole}) > 3
    for at in range(0, 15, size):
        for one, other in zip(engine.decode(sources[at : at + size], np.ones(size), options), whole[at:], strict=False):
            assert one.segments == other.segments
            assert one.steps == other.steps
            assert one.log_probs[0] == pytest.approx(other.log_probs[0], abs=1e-4)


def test_lengths_are_the_likeliest_ones_and_passes_are_counted() -> None:
    engine = TorchNatEngine(opinionated(CONFIG, 6), CPU)
    sources, _ = random_pairs(8, seed=7)
    writer = engine.open(sources)
    five = writer.likeliest_lengths(5)
    assert five.shape == (8, 5)
    assert five[:, :1].tolist() == writer.likeliest_lengths(1).tolist()
    alone = engine.decode(sources, np.ones(8), Options(iterations=10, lengths=1))
    assert [len(one.segments[0]) - 1 for one in alone] == five[:, 0].tolist()
    several = engine.decode(sources, np.ones(8), Options(iterations=1, lengths=5))
    assert all(len(one.segments[0]) - 1 in own for one, own in zip(several, five.tolist(), strict=True))
    assert {one.steps for one in several} == {1}
    assert max(one.steps for one in alone) > 4
    assert all(np.mean(a.log_probs[0]) >= np.mean(b.log_probs[0]) - 1e-4 for a, b in zip(
        several, engine.decode(sources, np.ones(8), Options(iterations=1, lengths=1)), strict=True
    ))  # fmt: skip


def test_a_teacher_does_not_judge_what_judges_itself() -> None:
    with pytest.raises(UserError, match="only a one-step model"):
        TorchNatEngine(opinionated(CONFIG, 8), CPU).judged_by(TorchEngine(Transformer(CONFIG), CPU), 3)
