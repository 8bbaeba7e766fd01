import numpy as np
import pytest

from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.data.lexicon import Lexicon, learn_lexicon

V, FILLER = 30, 2


def pairs_of(pairs: list[tuple[list[int], list[int]]]) -> ParallelSentences:
    return ParallelSentences(Sentences.of(src for src, _ in pairs), Sentences.of(tgt for _, tgt in pairs))


def cipher(n: int, seed: int = 1) -> ParallelSentences:
    """Make sentences of pieces 5-14 whose translations are the same pieces plus 10, in another order."""
    rng = np.random.default_rng(seed)
    sources = [rng.choice(np.arange(5, 15), rng.integers(1, 7), replace=False) for _ in range(n)]
    return pairs_of([(src.tolist(), (rng.permutation(src) + 10).tolist()) for src in sources])


def test_a_cipher_is_broken() -> None:
    table = learn_lexicon(cipher(60), V).likeliest(1, FILLER)
    assert table[5:15, 0].tolist() == list(range(15, 25))
    assert (table[15:] == FILLER).all()


def test_one_pass_counts_and_more_passes_decide() -> None:
    # 5 and 6 always stand together, but 5 also alone: it explains 15, so that 16 is left for 6
    pairs = pairs_of([([5, 6], [15, 16]), ([5], [15])])

    def shares(passes: int) -> tuple[float, float]:
        lexicon = learn_lexicon(pairs, V, passes)
        counts = dict(zip(lexicon._cells.tolist(), lexicon._counts.tolist(), strict=True))
        wrong, right = counts[6 * V + 15], counts[6 * V + 16]
        return wrong / (wrong + right), right / (wrong + right)

    assert shares(1) == (0.5, 0.5)
    wrong, right = shares(5)
    assert right > 0.7 > 0.3 > wrong


def test_counts_are_those_of_model_1() -> None:
    """Compare with the textbook's loops."""
    pairs, passes = cipher(8, seed=3), 3
    lines = [([1, *pairs.src[i].tolist()], pairs.tgt[i].tolist()) for i in range(len(pairs))]  # 1 = nobody
    chances = {(s, t): 1.0 for src, tgt in lines for s in src for t in tgt}
    for _ in range(passes):
        counts, totals = dict.fromkeys(chances, 0.0), dict.fromkeys(range(V), 0.0)
        for src, tgt in lines:
            for t in tgt:
                whole = sum(chances[s, t] for s in src)
                for s in src:
                    counts[s, t] += chances[s, t] / whole
                    totals[s] += chances[s, t] / whole
        chances = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    learnt = learn_lexicon(pairs, V, passes)
    assert learnt._cells.tolist() == [s * V + t for s, t in sorted(counts)]
    np.testing.assert_allclose(learnt._counts, [counts[pair] for pair in sorted(counts)])


def test_parts_are_added_up() -> None:
    pairs = cipher(200)
    whole, parts = learn_lexicon(pairs, V), learn_lexicon(pairs, V, links=1000)
    assert parts._cells.tolist() == whole._cells.tolist()
    assert parts._counts.sum() == pytest.approx(whole._counts.sum()) == pytest.approx(len(pairs.tgt.ids))
    assert parts._counts.tolist() != whole._counts.tolist()  # each part has learnt by itself
    assert (parts.likeliest(1, FILLER) == whole.likeliest(1, FILLER)).all()


def test_nothing_is_learnt_from_nothing() -> None:
    empty = pairs_of([([5], []), ([6], [])])
    assert (learn_lexicon(empty, V).likeliest(2, FILLER) == FILLER).all()


def test_the_likeliest_come_first_and_gaps_are_filled() -> None:
    lexicon = Lexicon(V, np.array([5 * V + 6, 5 * V + 7, 5 * V + 8, 9 * V + 3]), np.array([0.1, 0.6, 0.3, 1.0]))
    table = lexicon.likeliest(2, FILLER)
    assert table[5].tolist() == [7, 8]
    assert table[9].tolist() == [3, FILLER]
    assert table[0].tolist() == [FILLER, FILLER]
