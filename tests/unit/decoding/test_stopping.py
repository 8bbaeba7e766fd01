"""Decoding stops between two steps as soon as it is told to."""

from typing import Any

import pytest

from recoversat.decoding.stopping import StoppedError, stoppable


def test_nothing_is_decoded_after_the_stop(scripted: Any) -> None:
    translator = scripted({"a b": ["the the the the EOS", "house EOS"]})
    calls = []

    def check() -> None:
        calls.append(len(translator.engine.batches))
        if len(translator.engine.batches) == 2:
            raise StoppedError

    with pytest.raises(StoppedError), stoppable(check):
        translator.translate(["a b"])
    assert len(translator.engine.batches) == 2
    assert calls[-3:] == [0, 1, 2]
    assert translator.translate(["a b"])[0].text  # and nobody listens any more
