"""CTC in groups of similar lengths: loss, gradient and best path are those of each sentence alone."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.data.batching import Batch
from recoversat.model.nat import upsampled
from recoversat.segments import Ints
from recoversat.training import ctc
from recoversat.training.nat import nat_rows
from recoversat.vocab import BLANK, N_SPECIAL
from tests.unit.model.one_pass import CPU, V, packed

D, UPSAMPLE = 8, 3
SHORT = [([11], [7, 8]), ([12, 13], [7, 7, 9, 8]), ([14, 15], [10]), ([16], [9, 9])]
TOO_LONG = [([11], [7, 8, 9, 10]), ([12, 13], [7, 7, 7, 7])]  # for 3 rows, and with three blanks for 6
Pair = tuple[list[int], list[int]]


def mixed() -> list[Pair]:
    """Many short sentences, one very long one, targets that have no path, tokens that are repeated."""
    rng = np.random.default_rng(1)
    few = N_SPECIAL + 3  # so that tokens are repeated, side by side and elsewhere
    sizes = [(40, 70), *zip(rng.integers(1, 7, 40).tolist(), rng.integers(1, 9, 40).tolist(), strict=True)]
    drawn = [(rng.integers(N_SPECIAL, V, n).tolist(), rng.integers(N_SPECIAL, few, m).tolist()) for n, m in sizes]
    return [*SHORT, *TOO_LONG, *drawn]


class Rows:
    """A packed batch, with random hidden states in the place of a model's."""

    def __init__(self, pairs: list[Pair]) -> None:
        own = torch.Generator().manual_seed(2)
        batch: Batch = nat_rows(packed(*map(list, zip(*pairs, strict=True))).to(CPU))
        _, self.steps, self.sentence = upsampled(batch.src_tokens, batch.src_positions, batch.src_sentence, UPSAMPLE)
        self.hidden = torch.randn(*self.steps.shape, D, generator=own).requires_grad_()
        self.weight = torch.randn(V, D, generator=own).requires_grad_()
        self.groups = ctc._groups(*ctc._layouts(self.sentence, self.steps, batch), batch.labels)
        self.batch = batch

    def sentences(self) -> list[tuple[Tensor, list[int]]]:
        """Return each sentence alone: log-probabilities (rows, V), and the target."""
        log_probs = (self.hidden @ self.weight.T).log_softmax(dim=-1)
        return [
            (log_probs[line][self.sentence[line] == number], target)
            for line, numbers in enumerate(self.sentence)
            for number in numbers[numbers > 0].unique()
            if (target := self.batch.labels[line][self.batch.sentence[line] == number].tolist())
        ]


def has_path(log_probs: Tensor, target: list[int]) -> bool:
    return len(target) + sum(a == b for a, b in pairwise(target)) <= len(log_probs)


def test_the_loss_and_its_gradient_are_the_sum_of_those_of_sentences_alone() -> None:
    rows, smoothing = Rows(mixed()), 0.1
    assert len(rows.groups) > 1
    plain, spread, n_tokens = torch.zeros(()), torch.zeros(()), 0
    for log_probs, target in rows.sentences():
        if has_path(log_probs, target):
            sizes = torch.tensor([len(log_probs)]), torch.tensor([len(target)])
            plain = plain + F.ctc_loss(log_probs[:, None], torch.tensor([target]), *sizes, BLANK, "sum")
            spread = spread - log_probs.mean(dim=-1).sum()
            n_tokens += len(target)
    assert n_tokens < sum(len(target) for _, target in mixed())  # some have none
    found = ctc.ctc_loss(rows.hidden, rows.weight, rows.groups, smoothing)
    assert int(found.n_labels) == n_tokens
    assert float(found.nll) == pytest.approx(plain.item(), rel=1e-5)
    wanted = (1 - smoothing) * plain + smoothing * spread
    assert float(found.smoothed.detach()) == pytest.approx(wanted.item(), rel=1e-5)
    leaves = [rows.hidden, rows.weight]
    for one, other in zip(
        torch.autograd.grad(found.smoothed, leaves), torch.autograd.grad(wanted, leaves), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def viterbi(log_probs: Tensor, target: list[int]) -> list[int]:
    """Find the best path state by state, as a textbook does."""
    states = [BLANK]
    for token in target:
        states += [token, BLANK]
    best = {state: (float(log_probs[0, states[state]]), [states[state]]) for state in (0, 1)}
    for row in log_probs[1:]:
        ways: dict[int, tuple[float, list[int]]] = {}
        for state, token in enumerate(states):
            skips = token != BLANK and state >= 2 and states[state - 2] != token
            came = [best[state - move] for move in range(3 if skips else 2) if state - move in best]
            if came:
                score, path = max(came)
                ways[state] = score + float(row[token]), [*path, token]
        best = ways
    return max(best[state] for state in (len(states) - 1, len(states) - 2) if state in best)[1]


@torch.no_grad()
def test_the_best_path_is_that_of_a_sentence_alone() -> None:
    rows = Rows(mixed())
    found = torch.zeros_like(rows.sentence)
    for group in rows.groups:
        log_probs = ctc.class_log_probs(group.rows.unpack(rows.hidden), rows.weight, group.wanted)
        path = ctc.best_path(log_probs, group.wanted, group.rows, group.targets)
        found = group.rows.pack(path, found)
    paths = [
        found[line][rows.sentence[line] == number].tolist()
        for line, numbers in enumerate(rows.sentence)
        for number in numbers[numbers > 0].unique()
    ]
    compared = 0
    for path, (log_probs, target) in zip(paths, rows.sentences(), strict=True):
        if has_path(log_probs, target):
            assert path == viterbi(log_probs, target)
            compared += 1
    assert compared > 30
    assert not found[rows.sentence == 0].any()


def test_one_long_sentence_does_not_make_padding_of_all_others() -> None:
    rows = Rows(mixed())
    laid = sum(group.wanted.numel() * int(group.rows.sizes.max()) for group in rows.groups)
    together = sum(len(group.wanted) for group in rows.groups) * 70 * 40 * UPSAMPLE
    assert laid < together / 10


def cost(n_rows: Ints, n_tokens: Ints, ends: list[int], row_cost: int) -> int:
    parts = [slice(*part) for part in pairwise([0, *ends])]
    return sum(
        int(n_rows[part].max()) * (len(n_rows[part]) * (1 + int(n_tokens[part].max())) + row_cost) for part in parts
    )


@pytest.mark.parametrize("row_cost", [0, 10, 60, 10**6])
def test_no_other_groups_take_less_time(row_cost: int) -> None:
    rng = np.random.default_rng(row_cost)
    for _ in range(10):
        n_rows, n_tokens = np.sort(rng.integers(1, 9, 12)) * UPSAMPLE, rng.integers(0, 20, 12)
        borders = [at for at in range(1, 12) if n_rows[at - 1] < n_rows[at]]
        divisions = [[*chosen, 12] for n in range(len(borders) + 1) for chosen in combinations(borders, n)]
        found = ctc.group_ends(n_rows, n_tokens, row_cost)
        assert found in divisions
        assert cost(n_rows, n_tokens, found, row_cost) == min(cost(n_rows, n_tokens, d, row_cost) for d in divisions)
        assert row_cost < 10**6 or found == [12]


def test_no_sentences_have_no_groups() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert ctc.group_ends(nothing, nothing, 10) == []
