"""Every kind of model learns: a tiny one, in a second or two.

The bounds are far from what 40 seeds gave (`python -m tests.learning 40`), so that neither a seed nor the processor,
the BLAS or the number of threads decides. A loss that is not minimised ends above 2, and one that does not
depend on the source and the target is as low for the targets of other sentences.
"""

import pytest

from recoversat.config import Kind
from tests.learning import TASKS, learn


@pytest.mark.parametrize("kind", TASKS)
def test_a_tiny_model_learns(kind: Kind) -> None:
    learnt = learn(kind)
    assert learnt.loss_before > 2
    assert learnt.loss < 0.7
    assert learnt.loss_of_others > 2
    assert learnt.right > 0.7
