"""What an exported model may lose, and what it may not."""

import pytest

from recoversat.errors import UserError
from recoversat.export.checks import BleuChange, compare_bleu, refuse_loss


def test_a_loss_of_quality_is_refused_unless_forced() -> None:
    worse = BleuChange(30.0, 29.5, 100, "")
    with pytest.raises(UserError, match=r"loses 0\.50 BLEU \(30\.00 -> 29\.50\), more than 0\.3;"):
        refuse_loss(worse)
    refuse_loss(worse, force=True)
    refuse_loss(BleuChange(30.0, 29.71, 100, ""))
    refuse_loss(BleuChange(29.5, 30.0, 100, ""))


def test_the_change_is_that_from_torch_to_the_exported_model() -> None:
    references = ["a small house on a hill", "two dogs run over the grass"]
    change = compare_bleu(references, [references[0], "two cats run over the grass"], references)
    assert change.torch == pytest.approx(100)
    assert change.change < -5
    assert change.sentences == 2
    assert change.as_text().startswith("BLEU 100.00 -> ")
