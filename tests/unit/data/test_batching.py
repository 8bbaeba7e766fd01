"""Batches hold exactly the rows that the paper makes of each sentence (tests/oracles.py)."""

import numpy as np
import pytest

from recoversat.config import TrainConfig
from recoversat.data.batching import Batch, Batches, UpdatePlan, random_prob_at
from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.data.randomness import derived_seed, uniforms
from recoversat.segments import N_FIXED_DRAWS
from recoversat.vocab import BOS, DEL, EOS, PAD
from tests import oracles


def corpus(n: int, seed: int = 0) -> ParallelSentences:
    rng = np.random.default_rng(seed)
    sides = [[rng.integers(5, 90, size=rng.integers(1, 30)).tolist() for _ in range(n)] for _ in range(2)]
    unique = [[100 + i, *source] for i, source in enumerate(sides[0])]
    return ParallelSentences(Sentences.of(unique), Sentences.of(sides[1]))


def word_ends(ids: np.ndarray) -> np.ndarray:
    return ids % 3 == 0


def sentences_of(batches: list[Batch]) -> dict[tuple[int, ...], tuple]:
    """Unpack lines into {source: rows}."""
    found = {}
    for batch in batches:
        for line in range(len(batch.tokens)):
            for number in range(1, batch.sentence[line].max() + 1):
                src = batch.src_sentence[line] == number
                row = batch.sentence[line] == number
                assert batch.src_positions[line][src].tolist() == list(range(src.sum()))
                columns = (batch.tokens, batch.labels, batch.steps, batch.segments)
                key = tuple(batch.src_tokens[line][src].tolist())
                assert key not in found
                found[key] = tuple(column[line][row].tolist() for column in columns)
    return found


def draws_of(seed: int, epoch: int, sentence: int, length: int) -> list[float]:
    """Return the draws that divide a sentence; the one before them chooses K."""
    return uniforms(seed * 2 + 1, epoch, np.array([sentence]), 1 + N_FIXED_DRAWS + length)[0, 1:].tolist()


@pytest.mark.parametrize("cut_at", ["token", "word"])
@pytest.mark.parametrize("train_on_copies", [False, True])
@pytest.mark.parametrize("k", [1, 2, 4, 10])
def test_batches_hold_the_rows_of_the_paper(k: int, train_on_copies: bool, cut_at: str) -> None:
    pairs = corpus(120)
    config = TrainConfig(segments=k, batch_tokens=400, steps=20, seed=3, train_on_copies=train_on_copies, cut_at=cut_at)
    batches = Batches.of(pairs, config, word_ends)
    for update in (0, 3, batches.plan.updates_per_epoch + 1):
        epoch, chosen = batches.plan.sentences(update)
        found = sentences_of(batches[update])
        assert len(found) == len(chosen)
        for sentence in chosen:
            target = pairs.tgt[sentence].tolist()
            may_cut = word_ends(np.array(target)).tolist() if cut_at == "word" else None
            p, draws = random_prob_at(config, update), draws_of(3, epoch, sentence, len(target))
            segments = oracles.divided_by(target, k, p, config.repeat_prob, draws, may_cut)
            columns = zip(*oracles.rows(segments, train_on_copies), strict=True)
            assert found[tuple(pairs.src[sentence].tolist())] == tuple(map(list, columns))


def test_an_epoch_sees_each_sentence_once_and_epochs_differ() -> None:
    lengths = corpus(500).tgt.lengths
    plan = UpdatePlan(lengths, 300, seed=1)
    epochs = []
    for epoch in range(2):
        updates = [plan.sentences(epoch * plan.updates_per_epoch + i) for i in range(plan.updates_per_epoch)]
        assert {e for e, _ in updates} == {epoch}
        order = np.concatenate([chosen for _, chosen in updates])
        assert sorted(order) == list(range(500))
        tokens = [int(lengths[chosen].sum()) for _, chosen in updates]
        assert max(tokens) <= 300 * 1.25
        epochs.append(order.tolist())
    assert epochs[0] != epochs[1]


def test_every_update_has_a_sentence_even_when_batches_are_tiny() -> None:
    plan = UpdatePlan(np.array([1, 50, 1, 1, 40]), 1, seed=0)
    assert all(len(plan.sentences(update)[1]) for update in range(3 * plan.updates_per_epoch))


def test_processes_and_accumulation_split_the_same_update() -> None:
    pairs = corpus(200)
    whole = Batches.of(pairs, TrainConfig(segments=3, batch_tokens=1500), word_ends)
    halves = [
        Batches.of(pairs, TrainConfig(segments=3, batch_tokens=1500, accumulate=2), word_ends, rank, 2)
        for rank in (0, 1)
    ]
    shares = [batch for half in halves for batch in half[5]]
    assert len(shares) == 4
    assert sentences_of(shares) == sentences_of(whole[5])
    assert sum(share.n_target_tokens for share in shares) == whole[5][0].n_target_tokens


def test_more_processes_than_lines_leaves_empty_batches_not_errors() -> None:
    pairs = corpus(3)
    shares = [Batches.of(pairs, TrainConfig(segments=2), word_ends, rank, 4)[0] for rank in range(4)]
    assert sum(batch.n_target_tokens for (batch,) in shares) == int(pairs.tgt.lengths.sum())
    assert all(len(batch.tokens) == 1 for (batch,) in shares)


def test_k_is_drawn_per_sentence_from_a_list() -> None:
    pairs = corpus(400)
    batches = Batches.of(pairs, TrainConfig(segments=[1, 2, 5], batch_tokens=100_000, repeat_prob=0.0), word_ends)
    starts = [columns[0].count(BOS) for columns in sentences_of(batches[0]).values()]
    assert set(starts) == {1, 2, 5}
    assert min(starts.count(k) for k in (1, 2, 5)) > 90


def test_the_order_of_sentences_says_nothing_about_their_k() -> None:
    config = TrainConfig(segments=[1, 2, 5], batch_tokens=1000, repeat_prob=0.0)
    batches = Batches.of(corpus(400), config, word_ends)
    for update in range(batches.plan.updates_per_epoch):
        assert {columns[0].count(BOS) for columns in sentences_of(batches[update]).values()} == {1, 2, 5}


def test_little_padding() -> None:
    pairs = corpus(3000)
    (batch,) = Batches.of(pairs, TrainConfig(segments=5, batch_tokens=20_000), word_ends)[0]
    assert (batch.sentence > 0).mean() > 0.9
    assert (batch.labels != PAD).sum() > batch.n_target_tokens


def test_draws_have_an_address() -> None:
    some = uniforms(1, 2, np.array([5, 9]), 100)
    assert (uniforms(1, 2, np.array([9]), 40)[0] == some[1, :40]).all()
    other = [uniforms(2, 2, np.array([9]), 100)[0], uniforms(1, 3, np.array([9]), 100)[0], some[0]]
    assert all((draws != some[1]).all() for draws in other)
    many = uniforms(0, 0, np.arange(2000), 50)
    assert abs(many.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(many[:, 0], many[:, 1])[0, 1]) < 0.07


def draft_rows(target: list[int], count: int, end: int) -> tuple[list[int], list[int]]:
    """Say tokens again, one sentence at a time: what rows read, and what they are to predict."""
    draft = [*target[:end], *target[end - count : end], *target[end:]]
    superfluous = [end <= place < end + count for place in range(len(draft))]
    labels = []
    for read in range(-1, len(draft)):
        proper = [draft[place] for place in range(read + 1, len(draft)) if not superfluous[place]]
        labels.append(DEL if read >= 0 and superfluous[read] else [*proper, EOS][0])
    return [BOS, *draft], labels


@pytest.mark.parametrize("k", [1, 4])
def test_drafts_say_tokens_twice_and_mark_them(k: int) -> None:
    pairs, seen = corpus(200), set()
    off = TrainConfig(segments=k, batch_tokens=600, steps=20, seed=3)
    plain, batches = (
        Batches.of(pairs, off.model_copy(update={"delete_tokens": share}), word_ends) for share in (0.0, 0.4)
    )
    for update in (0, batches.plan.updates_per_epoch + 1):
        found, before = sentences_of(batches[update]), sentences_of(plain[update])
        assert found.keys() == before.keys()
        epoch, chosen = batches.plan.sentences(update)
        draws = uniforms(derived_seed(3, 2), epoch, chosen, 3)
        for sentence, (chance, many, where) in zip(chosen, draws, strict=True):
            key, target = tuple(pairs.src[sentence].tolist()), pairs.tgt[sentence].tolist()
            if chance >= 0.4:
                assert found[key] == before[key]
                continue
            end = 1 + int(where * len(target))
            count = min(int(many * 4), end)
            tokens, labels = draft_rows(target, count, end)
            n = len(tokens)
            assert found[key] == (tokens, labels, list(range(n)), [0] * n)
            seen.add((count, end == len(target)))
    assert {count for count, _ in seen} == {0, 1, 2, 3}
    assert (1, True) in seen  # what is said twice may be the end
