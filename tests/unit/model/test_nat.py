"""The one-step baseline: its copy rule and its packing."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.decoding.oneshot import copied, write
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.nat import TorchNatEngine
from recoversat.errors import UserError
from recoversat.model.nat import MAX_LENGTH_CHANGE, NatTransformer, copied_places, length_classes, likeliest_lengths
from recoversat.model.transformer import Transformer
from recoversat.training.nat import length_loss, nat_loss, nat_rows
from recoversat.vocab import EOS, N_SPECIAL, PAD
from tests.unit.model.one_pass import CPU, config_of, one_by_one, opinionated, packed, random_pairs

CONFIG = config_of("nat", encoder_layers=2)


def run(model: NatTransformer, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    hidden, lengths = model(batch.src_tokens, batch.src_positions, batch.src_sentence, batch.steps, batch.sentence)
    return hidden, lengths


@pytest.mark.parametrize(
    ("n_src", "n_tgt", "places"),
    [
        (4, 4, [0, 1, 2, 3]),
        (2, 4, [0, 1, 1, 1]),  # 0, 0.5, 1, 1.5: halves go up, the last may not leave the source
        (6, 3, [0, 2, 4]),
        (5, 3, [0, 2, 3]),  # 0, 1.67, 3.33
        (1, 3, [0, 0, 0]),
    ],
)
def test_the_source_is_copied_uniformly(n_src: int, n_tgt: int, places: list[int]) -> None:
    src, tgt = torch.arange(n_src)[None], torch.arange(n_tgt)[None]
    assert copied_places(src, torch.ones_like(src), tgt, torch.ones_like(tgt)).tolist() == [places]
    assert copied(range(n_src), n_tgt).tolist() == places  # in decoding as in training


def test_sentences_of_a_line_copy_only_from_themselves_in_any_order_of_places() -> None:
    src_sentence, src_positions = torch.tensor([[2, 2, 2, 1, 1, 0]]), torch.tensor([[2, 1, 0, 0, 1, 0]])
    sentence, steps = torch.tensor([[1, 2, 1, 2, 0]]), torch.tensor([[1, 0, 0, 1, 0]])
    places = copied_places(src_positions, src_sentence, steps, sentence)[0, :4]
    assert places.tolist() == [4, 2, 3, 0]  # position 1 of 1, 0 of 2, 0 of 1, round(1.5) = 2 of 2


def test_dropping_eos_rows_leaves_one_row_a_target_token() -> None:
    src, tgt = random_pairs(12, seed=0)
    before = packed(src, tgt)
    after = nat_rows(before)
    assert (before.labels == EOS).sum() == 12
    assert not (after.labels == EOS).any()
    assert sorted(after.labels[after.sentence > 0].tolist()) == sorted(token for line in tgt for token in line)
    assert (after.labels[after.sentence == 0] == PAD).all()
    assert (after.steps[before.labels != EOS] == before.steps[before.labels != EOS]).all()
    tensors = nat_rows(before.to(CPU))
    assert (tensors.labels.numpy() == after.labels).all()
    assert (tensors.sentence.numpy() == after.sentence).all()


def test_the_packed_loss_is_the_sum_over_sentences() -> None:
    model = opinionated(CONFIG, 0)
    src, tgt = random_pairs(30, seed=1)
    batch = nat_rows(packed(src, tgt)).to(CPU)
    assert batch.sentence.max() > 1  # several sentences share a line
    with torch.no_grad():
        together = nat_loss(*run(model, batch), model.embedding.weight, batch, 0.1)
        apart = [nat_loss(*run(model, one), model.embedding.weight, one, 0.1) for one in one_by_one(src, tgt)]
    assert together.n_labels == sum(one.n_labels for one in apart) == sum(map(len, tgt)) + 30
    assert float(together.smoothed) == pytest.approx(sum(float(one.smoothed) for one in apart), rel=1e-4)
    assert float(together.nll) == pytest.approx(sum(float(one.nll) for one in apart), rel=1e-4)


@torch.no_grad()
def test_the_loss_is_tokens_plus_lengths() -> None:
    model = opinionated(CONFIG, 1)
    src, tgt = [[7, 8, 9]], [[10, 11]]
    (batch,) = one_by_one(src, tgt)
    hidden, lengths = run(model, batch)
    tokens = F.cross_entropy(model.logits(hidden)[0], torch.tensor(tgt[0]), reduction="sum")
    length = F.cross_entropy(lengths[0, :1], torch.tensor([MAX_LENGTH_CHANGE - 1]))
    loss = nat_loss(hidden, lengths, model.embedding.weight, batch, 0.0)
    assert float(loss.smoothed) == pytest.approx(float(tokens + length), rel=1e-5)
    assert int(loss.n_labels) == 3


def test_the_length_of_a_packed_sentence_comes_from_its_own_source_alone() -> None:
    model = opinionated(CONFIG, 2)
    src, tgt = random_pairs(20, seed=3)
    batch = nat_rows(packed(src, tgt)).to(CPU)
    with torch.inference_mode():
        _, together = run(model, batch)
        apart = {tuple(one.src_tokens[0].tolist()): run(model, one)[1][0, 0] for one in one_by_one(src, tgt)}
    found = 0
    for line, numbers in enumerate(batch.src_sentence):
        for number in range(1, int(numbers.max()) + 1):
            source = tuple(batch.src_tokens[line][numbers == number].tolist())
            torch.testing.assert_close(together[line, number - 1], apart[source], atol=1e-4, rtol=1e-4)
            found += 1
    assert found == 20


def test_lines_without_a_sentence_cost_nothing() -> None:
    logits = torch.randn(2, 3, 2 * MAX_LENGTH_CHANGE + 1)
    one, none = torch.tensor([[1, 1, 1]]), torch.zeros(1, 3, dtype=torch.long)
    loss, n = length_loss(logits, torch.cat([one, none]), torch.cat([one, none]))
    assert int(n) == 1
    assert float(loss) == pytest.approx(float(F.cross_entropy(logits[0, :1], torch.tensor([MAX_LENGTH_CHANGE]))))


def test_lengths_become_classes_and_back() -> None:
    src = torch.tensor([10, 10, 10, 3])
    tgt = torch.tensor([10, 4, 60, 1])
    logits = F.one_hot(length_classes(src, tgt), 2 * MAX_LENGTH_CHANGE + 1).float()
    assert likeliest_lengths(logits, src, 1)[:, 0].tolist() == tgt.tolist()
    assert length_classes(torch.tensor([1, 500]), torch.tensor([500, 1])).tolist() == [2 * MAX_LENGTH_CHANGE, 0]
    shrinks = F.one_hot(torch.tensor([0]), 2 * MAX_LENGTH_CHANGE + 1).float()
    assert likeliest_lengths(shrinks, torch.tensor([5]), 3)[0, 0] == 1


def test_every_position_sees_every_other() -> None:
    model = opinionated(CONFIG, 3)
    (batch,) = one_by_one([[7, 8, 9, 10]], [[11, 12, 13, 14]])
    with torch.inference_mode():
        memory = model.encode(batch.src_tokens, batch.src_positions, batch.src_sentence)
        rest = (batch.steps, batch.sentence, memory, batch.src_sentence)
        before = model.decode(batch.src_tokens, *rest)
        after = model.decode(torch.tensor([[7, 8, 9, 20]]), *rest)  # only the last position's input changes
    assert (before - after).abs().amax(dim=-1).min() > 1e-3


def test_a_teachers_encoder_and_embedding_fit() -> None:
    teacher = Transformer(CONFIG).state_dict()
    shared = {name for name in teacher if name.startswith(("encoder.", "embedding."))}
    own = NatTransformer(CONFIG).state_dict()
    assert shared <= own.keys()
    assert all(own[name].shape == teacher[name].shape for name in shared)
    assert {name for name in teacher if name.startswith("decoder.")} <= own.keys()


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_sentences_do_not_notice_their_batch(size: int) -> None:
    engine = TorchNatEngine(opinionated(CONFIG, 4), CPU)
    sources, _ = random_pairs(30, seed=5)
    whole = write(engine.open(sources), sources, np.arange(30), np.arange(30) % 9 + 1)
    predicted = engine.open(sources).likeliest_lengths(1)
    order = np.random.default_rng(size).permutation(30)
    for first in range(0, 30, size):
        batch = order[first : first + size]
        some = [sources[i] for i in batch]
        filler = engine.open(some)
        for at, one in zip(batch, write(filler, some, np.arange(len(batch)), batch % 9 + 1), strict=True):
            assert one.segments == whole[at].segments
            assert one.log_probs[0] == pytest.approx(whole[at].log_probs[0], abs=1e-4)
        assert filler.likeliest_lengths(1).tolist() == predicted[batch].tolist()


def test_special_tokens_are_never_written() -> None:
    model = opinionated(CONFIG, 6)
    model.embedding.weight.data[:N_SPECIAL] *= 5.0
    sources, _ = random_pairs(20, seed=7)
    batch = next(one_by_one(sources[:1], [[9, 9]]))
    with torch.inference_mode():
        liked = model.logits(run(model, batch)[0]).argmax(dim=-1)
    assert (liked < N_SPECIAL).any()  # left to itself it would write them
    for one in write(TorchNatEngine(model, CPU).open(sources), sources, np.arange(20), np.full(20, 6)):
        assert len(one.segments[0]) == 7
        assert min(one.segments[0][:-1]) >= N_SPECIAL


def test_length_parallel_decoding_with_a_real_teacher_takes_its_favourite() -> None:
    torch.manual_seed(9)
    teacher = TorchEngine(Transformer(CONFIG), CPU)
    sources, _ = random_pairs(6, seed=10)
    engine = TorchNatEngine(opinionated(CONFIG, 11), CPU)
    results = engine.judged_by(teacher, 5).decode(sources, np.ones(6, dtype=np.int64))
    for source, result in zip(sources, results, strict=True):
        filler = engine.open([source])
        first = max(int(filler.likeliest_lengths(1)[0, 0]) - 2, 1)
        written = write(filler, [source], np.zeros(5, dtype=np.int64), np.arange(first, first + 5))
        means = [np.mean(s.log_probs[0]) for s in teacher.score([(source, one.segments[0][:-1]) for one in written])]
        assert result.segments == written[int(np.argmax(means))].segments


def test_a_one_step_model_refuses_what_it_cannot_do_and_says_what_can() -> None:
    engine = TorchNatEngine(opinionated(CONFIG, 11), CPU)
    with pytest.raises(UserError, match="beam 4: a one-step model has no beam; leave it out"):
        engine.search([[7, 8]], 4)
    with pytest.raises(UserError, match="gives no probability to a whole translation; use a teacher"):
        engine.score([([7, 8], [9])])
    with pytest.raises(UserError, match="only a one-step model"):
        TorchEngine(Transformer(CONFIG), CPU).judged_by(engine, 3)
