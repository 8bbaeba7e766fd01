from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from recoversat.decoding.stepping import Bools, Choice, Ints
from recoversat.engines.onnx.split_stepper import SplitStepper


class Remembering:
    """A stepper whose choices show which sentence each member is."""

    def __init__(self, names: list[int]) -> None:
        self.names = np.array(names)

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        assert tokens.shape[0] == len(self.names)
        chosen = np.where(active, self.names[:, None] * 100 + tokens, 0)
        if forced is not None:
            chosen = np.where(forced < 0, chosen, forced)
        log_probs = -chosen.astype(np.float32)
        if not n_best:
            return Choice(chosen, log_probs)
        return Choice(chosen, log_probs, np.stack([chosen] * n_best, -1), np.stack([log_probs] * n_best, -1))

    def keep(self, which: Ints) -> None:
        self.names = self.names[which]


def split(pool: Executor | None = None) -> SplitStepper:
    parts = [(Remembering([0, 2]), np.array([0, 2])), (Remembering([1, 3, 4]), np.array([1, 3, 4]))]
    return SplitStepper(parts, pool)


def names_in(stepper: SplitStepper, members: int) -> list[int]:
    tokens = np.zeros((members, 1), dtype=np.int64)
    return (stepper.step(tokens, np.ones((members, 1), dtype=bool)).tokens[:, 0] // 100).tolist()


def test_choices_come_back_in_the_order_of_the_batch() -> None:
    tokens = np.array([[5, 6], [7, 8], [9, 10], [11, 12], [13, 14]])
    active = np.ones((5, 2), dtype=bool)
    active[3, 1] = False
    choice = split().step(tokens, active)
    assert choice.tokens.tolist() == [[5, 6], [107, 108], [209, 210], [311, 0], [413, 414]]
    assert choice.log_probs[2].tolist() == [-209, -210]
    assert choice.best_tokens is None


def test_parts_step_side_by_side_to_the_same_end() -> None:
    with ThreadPoolExecutor(2) as pool:
        stepper = split(pool)
        assert names_in(stepper, 5) == [0, 1, 2, 3, 4]
        stepper.keep(np.array([4, 0]))
        assert names_in(stepper, 2) == [4, 0]


def test_forced_tokens_and_alternatives_reach_their_part() -> None:
    tokens, forced = np.zeros((5, 1), dtype=np.int64), np.array([[-1], [55], [-1], [-1], [66]])
    choice = split().step(tokens, np.ones((5, 1), dtype=bool), forced, n_best=2)
    assert choice.tokens[:, 0].tolist() == [0, 55, 200, 300, 66]
    assert choice.best_tokens is not None
    assert choice.best_tokens[1].tolist() == [[55, 55]]


def test_keep_reorders_repeats_and_drops_across_parts() -> None:
    stepper = split()
    stepper.keep(np.array([4, 0, 0, 3]))
    assert names_in(stepper, 4) == [4, 0, 0, 3]
    stepper.keep(np.array([3, 1]))
    assert names_in(stepper, 2) == [3, 0]


def test_a_part_that_has_left_is_not_asked_any_more() -> None:
    stepper = split()
    stepper.keep(np.array([2, 0]))
    assert names_in(stepper, 2) == [2, 0]
    stepper.keep(np.array([1, 1, 0]))
    assert names_in(stepper, 3) == [0, 0, 2]
