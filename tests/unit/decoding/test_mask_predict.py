"""Mask-predict: which tokens are written again, how often, and which length is kept."""

import numpy as np
import pytest

from recoversat.decoding.mask_predict import least_sure, mask_predict
from recoversat.decoding.stepping import Floats, Ints
from recoversat.vocab import EOS, MASK, N_SPECIAL


class Scripted:
    """Writes 10 + place + 100 * (pass - 1), with log-probabilities that the test gives; notes what it was shown."""

    def __init__(self, lengths: list[list[int]], log_probs: Floats) -> None:
        self.known, self.log_probs, self.shown = np.array(lengths), log_probs, []

    def likeliest_lengths(self, n: int) -> Ints:
        return self.known[:, :n]

    def fill(self, members: Ints, tokens: Ints, lengths: Ints) -> tuple[Ints, Floats]:
        chosen = 10 + np.arange(tokens.shape[1]) + 100 * len(self.shown) + 0 * tokens
        self.shown.append((members.tolist(), tokens.copy(), lengths.tolist()))
        return chosen, self.log_probs[: len(tokens), : tokens.shape[1]] * np.float32(1)


@pytest.mark.parametrize(
    ("iterations", "masked"), [(1, [10]), (4, [10, 7, 5, 2]), (10, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1])]
)
def test_fewer_tokens_are_masked_each_time_and_the_least_sure_ones(iterations: int, masked: list[int]) -> None:
    sure = -np.arange(1.0, 11.0, dtype=np.float32)[None]  # the later the less
    model = Scripted([[10]], sure)
    (one,) = mask_predict(model, iterations, 1)
    assert [(tokens == MASK).sum() for _, tokens, _ in model.shown] == masked
    for count, (_, tokens, _) in zip(masked, model.shown, strict=True):
        assert (tokens[0] == MASK).tolist() == [False] * (10 - count) + [True] * count
    assert one.steps == iterations
    last = [max(at for at, count in enumerate(masked) if 10 - count <= place) for place in range(10)]
    assert one.segments == [[*(10 + place + 100 * at for place, at in enumerate(last)), EOS]]
    assert one.log_probs == [sure[0].tolist()]


def test_the_length_whose_tokens_are_surest_on_average_is_kept() -> None:
    log_probs = np.array([[-1, -1, -9], [-2, -2, -2], [-1, -1, -1], [-5, -5, -5]], dtype=np.float32)
    model = Scripted([[2, 3], [1, 3]], log_probs)
    first, second = mask_predict(model, 1, 2)
    assert model.shown[0][0] == [0, 0, 1, 1]
    assert model.shown[0][2] == [2, 3, 1, 3]
    assert first.segments == [[10, 11, EOS]]  # -1 a token, against -2
    assert second.segments == [[10, EOS]]
    likely = np.array([[-1, -1, -1], [-0.8, -0.8, -0.8]], dtype=np.float32)  # -2 and -2.4 in all
    (longer,) = mask_predict(Scripted([[2, 3]], likely), 1, 2)
    assert longer.segments == [[10, 11, 12, EOS]]


def test_what_does_not_exist_is_never_masked_nor_waited_for() -> None:
    log_probs = -np.ones((2, 6), dtype=np.float32)
    model = Scripted([[2], [6]], log_probs)
    short, long = mask_predict(model, 4, 1)
    assert [(tokens[0, :2] == MASK).sum() for _, tokens, _ in model.shown] == [2, 1, 1, 0]
    assert [(tokens[1] == MASK).sum() for _, tokens, _ in model.shown] == [6, 4, 3, 1]
    assert (short.steps, long.steps) == (3, 4)
    assert len(short.segments[0]) == 3
    assert min(token for one in (short, long) for token in one.segments[0][:-1]) >= N_SPECIAL


def test_padding_is_surer_than_anything() -> None:
    real = np.array([[True, True, False]])
    assert least_sure(np.array([[-1.0, -2.0, -9.0]]), real, np.array([1])).tolist() == [[False, True, False]]
