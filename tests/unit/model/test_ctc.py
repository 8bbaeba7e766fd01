"""CTC with glancing: paths and what is left of them, the loss without all logits, and the alignment."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.decoding.oneshot import collapse
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.nat import TorchNatEngine
from recoversat.errors import UserError
from recoversat.model.nat import NatTransformer, upsampled
from recoversat.model.transformer import Transformer
from recoversat.training import ctc
from recoversat.training.nat import nat_rows
from recoversat.training.objective import batch_loss
from recoversat.vocab import BLANK, EOS, N_SPECIAL
from tests.unit.model.one_pass import CPU, V, config_of, one_by_one, opinionated, packed, random_pairs

CONFIG = config_of("ctc", upsample=3, glancing=0.0)


def layouts(batch: Batch) -> tuple[ctc.Layout, ctc.Layout, Tensor]:
    """Lay out a batch as training does; also its targets."""
    _, steps, sentence = upsampled(batch.src_tokens, batch.src_positions, batch.src_sentence, CONFIG.upsample)
    rows, targets = ctc._layouts(sentence, steps, batch)
    return rows, targets, targets.unpack(batch.labels)


def all_log_probs(model: NatTransformer, source: list[int]) -> Tensor:
    """Return log-probabilities (rows, V) of a sentence alone."""
    (batch,) = one_by_one([source], [[9]])
    memory = model.encode(batch.src_tokens, batch.src_positions, batch.src_sentence)
    rows = upsampled(batch.src_tokens, batch.src_positions, batch.src_sentence, CONFIG.upsample)
    return model.logits(model.decode(*rows, memory, batch.src_sentence))[0].log_softmax(dim=-1)


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ([7, 7, 8], [7, 8]),
        ([7, BLANK, 7], [7, 7]),
        ([BLANK, BLANK], []),
        ([BLANK, 7, 7, BLANK, BLANK, 8, 8, 7], [7, 8, 7]),
        ([], []),
    ],
)
def test_repetitions_are_one_token_and_blanks_none(path: list[int], left: list[int]) -> None:
    assert [path[place] for place in collapse(path)] == left


@pytest.mark.parametrize("target", [[7], [7, 8], [7, 7], [7, 8, 7], [7, 8, 9]])
@torch.no_grad()
def test_the_loss_is_the_probability_of_all_paths_that_collapse_to_the_target(target: list[int]) -> None:
    model, source = opinionated(CONFIG, 1), [11]  # three rows
    log_probs = all_log_probs(model, source)
    used = sorted({BLANK, *target})
    paths = [path for path in product(used, repeat=3) if [path[place] for place in collapse(path)] == target]
    wanted = torch.stack([sum(log_probs[row, token] for row, token in enumerate(path)) for path in paths])
    loss = batch_loss(model, next(one_by_one([source], [target])), 0.0, False)
    assert float(loss.nll) == pytest.approx(-float(wanted.logsumexp(0)), rel=1e-4)
    assert int(loss.n_labels) == len(target)


def test_a_packed_batch_has_the_loss_and_the_gradient_of_torchs_own_over_all_classes() -> None:
    model = opinionated(CONFIG, 2)
    src, tgt = random_pairs(24, seed=3)
    tgt = [target[: 2 * len(source)] for source, target in zip(src, tgt, strict=True)]
    batch = packed(src, tgt).to(CPU)
    assert batch.sentence.max() > 1  # several sentences share a line
    loss = batch_loss(model, batch, 0.1, False)
    found = torch.autograd.grad(loss.smoothed, list(model.parameters()))
    plain, spread = torch.zeros(()), torch.zeros(())
    for source, target in zip(src, tgt, strict=True):
        log_probs = all_log_probs(model, source)
        sizes = torch.tensor([len(log_probs)]), torch.tensor([len(target)])
        plain = plain + F.ctc_loss(log_probs[:, None], torch.tensor([target]), *sizes, blank=BLANK, reduction="sum")
        spread = spread - log_probs.mean(dim=-1).sum()
    assert float(loss.nll) == pytest.approx(plain.item(), rel=1e-4)
    whole = 0.9 * plain + 0.1 * spread
    assert loss.smoothed.item() == pytest.approx(whole.item(), rel=1e-4)
    wanted = torch.autograd.grad(whole, list(model.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3 * float(other.abs().max()) + 1e-5)


@torch.no_grad()
def test_a_target_that_no_path_can_reach_is_passed_over() -> None:
    model = opinionated(CONFIG, 3)
    alone = batch_loss(model, packed([[7, 8]], [[9, 10]]).to(CPU), 0.1, False)
    src, tgt = [[7, 8], [11], [12]], [[9, 10], [9, 10, 9, 10], [9, 9, 9]]  # four tokens, and 3 + 2 blanks, in 3 rows
    both = batch_loss(model, packed(src, tgt).to(CPU), 0.1, False)
    assert float(both.smoothed) == pytest.approx(float(alone.smoothed), rel=1e-4)
    assert float(both.nll) == pytest.approx(float(alone.nll), rel=1e-4)
    assert int(both.n_labels) == 2


@torch.no_grad()
def test_the_best_path_is_the_likeliest_of_all_that_collapse_to_the_target() -> None:
    model = opinionated(CONFIG, 4)
    src, tgt = [[11], [12, 13], [14]], [[7, 8], [7, 7, 9, 8], [10]]
    batch = nat_rows(packed(src, tgt).to(CPU))
    rows, targets, wanted = layouts(batch)
    memory = model.encode(batch.src_tokens, batch.src_positions, batch.src_sentence)
    inputs = upsampled(batch.src_tokens, batch.src_positions, batch.src_sentence, CONFIG.upsample)
    hidden = rows.unpack(model.decode(*inputs, memory, batch.src_sentence))
    found = ctc.best_path(ctc.class_log_probs(hidden, model.embedding.weight, wanted), wanted, rows, targets)
    for number, target in enumerate(wanted.tolist()):
        target = [token for token in target if token]
        source = src[tgt.index(target)]
        log_probs = all_log_probs(model, source)
        paths = [
            path
            for path in product({BLANK, *target}, repeat=len(log_probs))
            if [path[place] for place in collapse(path)] == target
        ]
        best = max(paths, key=lambda path: sum(float(log_probs[row, token]) for row, token in enumerate(path)))
        assert found[number, : len(best)].tolist() == list(best)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_as_many_rows_are_shown_their_token_as_the_share_of_wrong_ones(share: float) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([9, 6, 12, 12])
    path = torch.randint(N_SPECIAL, V, (4, 12))
    written = path.clone()
    written[0, :4] = BLANK  # 4 wrong
    written[1] = BLANK  # 6 wrong, and six that do not exist
    written[2, 3] = BLANK
    shown = ctc.glanced(written, path, lengths, share)
    assert shown.sum(dim=1).tolist() == [int(share * n) for n in (4, 6, 1, 0)]
    assert not (shown & (torch.arange(12) >= lengths[:, None])).any()
    if share == 0.5:
        assert not torch.equal(shown, ctc.glanced(written, path, lengths, share))  # at random


def test_glancing_shows_the_decoder_tokens_of_the_best_path(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NatTransformer(CONFIG.model_copy(update={"glancing": 1.0}))
    model.load_state_dict(opinionated(CONFIG, 5).state_dict())
    carried = []
    plain = model.decode

    def decode(tokens: Tensor, *rest: Tensor) -> Tensor:
        carried.append(tokens)
        return plain(tokens, *rest)

    monkeypatch.setattr(model, "decode", decode)
    src, tgt = [[11, 12], [13, 14, 15]], [[20, 21, 22], [23, 24]]
    torch.manual_seed(0)
    batch = packed(src, tgt).to(CPU)
    batch_loss(model, batch, 0.0, False).smoothed.backward()
    source, seen = carried
    changed = seen != source
    assert 8 <= int(changed.sum()) <= 15  # nearly every place of an untrained model is wrong
    _, _, sentence = upsampled(batch.src_tokens, batch.src_positions, batch.src_sentence, 3)
    assert not (changed & (sentence == 0)).any()
    assert set(seen[changed].tolist()) <= {BLANK, 20, 21, 22, 23, 24}
    for line, number in {(a, int(b)) for a, b in zip(*torch.nonzero(changed, as_tuple=True), strict=True)}:
        own = batch.labels[line][batch.sentence[line] == sentence[line][number]].tolist()
        assert seen[line, number] in (BLANK, *own)  # of its own sentence


@pytest.mark.parametrize("size", [1, 5])
def test_sentences_do_not_notice_their_batch(size: int) -> None:
    engine = TorchNatEngine(opinionated(CONFIG, 6), CPU)
    sources, _ = random_pairs(15, seed=5)
    whole = engine.decode(sources, np.ones(15, dtype=np.int64))
    assert len({len(one.segments[0]) for one in whole}) > 3
    for at in range(0, 15, size):
        for one, other in zip(engine.decode(sources[at : at + size], np.ones(size)), whole[at:], strict=False):
            assert one.segments == other.segments
            assert one.log_probs[0] == pytest.approx(other.log_probs[0], abs=1e-4)


def test_no_special_token_is_written() -> None:
    model = opinionated(CONFIG, 7)
    model.embedding.weight.data[:BLANK] *= 5.0
    sources, _ = random_pairs(20, seed=7)
    assert any(int(all_log_probs(model, source).argmax(-1).min()) < BLANK for source in sources)
    for one in TorchNatEngine(model, CPU).decode(sources, np.ones(20)):
        assert min(one.segments[0][:-1], default=N_SPECIAL) >= N_SPECIAL
        assert one.segments[0][-1] == EOS
        assert one.steps == 1


def test_a_teacher_has_no_lengths_to_choose_from() -> None:
    teacher = TorchEngine(Transformer(CONFIG), CPU)
    with pytest.raises(UserError, match="only a one-step model"):
        TorchNatEngine(opinionated(CONFIG, 8), CPU).judged_by(teacher, 3)
