"""What engines inherit: the loops, and the bounds and parts of what they are asked for."""

import numpy as np
import pytest

from recoversat.engines.engine import Options
from recoversat.errors import UserError
from recoversat.vocab import EOS

SCRIPTS = {"a b": ["the house EOS", "in DEL"], "c": ["gas EOS", "a EOS"]}


def test_steps_are_bounded_by_the_source_unless_told_otherwise() -> None:
    sources, k = [[7] * 25, [7] * 9], np.array([10, 1])
    assert Options(extra_steps=3).most_steps(sources, k).tolist() == [6, 12]
    assert Options(limits=np.array([4, 5])).most_steps(sources, k).tolist() == [4, 5]
    assert Options(limits=np.array([4, 5]), lives=np.array([2, 8, 3])).most_steps(sources, k).tolist() == [8, 8]
    assert Options().most_steps([], np.zeros(0, dtype=np.int64)).tolist() == []


def test_a_part_of_a_batch_takes_its_own_bounds_and_tokens_along() -> None:
    options = Options(extra_steps=3, top_tokens=2, forced=[{(0, 0): 7}, {}, {(1, 0): 8}], limits=np.array([4, 5, 6]))
    part = options.of(np.array([2, 0]))
    assert (part.extra_steps, part.top_tokens, part.forced) == (3, 2, [{(1, 0): 8}, {(0, 0): 7}])
    assert part.limits is not None
    assert part.limits.tolist() == [6, 4]
    assert Options().of(np.array([1])) == Options()


def test_an_engine_of_steps_inherits_all_three(scripted) -> None:
    translator = scripted(SCRIPTS)
    engine, tokenizer = translator.engine, translator.tokenizer
    sources = tokenizer.encode(["a b", "c"])
    decoded = engine.decode(sources, np.array([2, 2]))
    assert [tokenizer.decode([t for t in one.segments[0] if t != EOS]) for one in decoded] == ["the house", "gas"]
    assert [one.segments[0] for one in engine.search(sources, 1)] == [one.segments[0] for one in decoded]
    targets = tokenizer.encode(["house the gas", ""])
    scored = engine.score(list(zip(sources, targets, strict=True)), 2)
    assert [one.segments for one in scored] == [[[*targets[0][:2], EOS], [targets[0][2], EOS]], [[EOS], [EOS]]]
    assert scored[0].log_probs == [pytest.approx([-0.1, -0.2, -0.3]), pytest.approx([-0.1, -0.2])]
    assert engine.score([]) == []


def test_only_a_one_step_model_is_judged(scripted) -> None:
    engine = scripted(SCRIPTS).engine
    with pytest.raises(UserError, match="lengths: only a one-step model"):
        engine.judged_by(engine, 3)
