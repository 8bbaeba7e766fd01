"""Sentences that are made up where there is no text: what a precision is compared on, and int8 gets its scales from."""

from typing import Any, cast

import pytest

from recoversat.config import DataConfig
from recoversat.export.folder import made_up_sources
from recoversat.vocab import N_SPECIAL

DE, EN, SIZE = 98, 99, 100


class Tokenizer:
    """Knows the tags of two languages."""

    size = SIZE

    def encode(self, texts: list[str], prefix: str) -> list[list[int]]:
        assert texts == [""]
        return [{"": [], "<2de>": [DE], "<2en>": [EN]}[prefix]]


@pytest.mark.parametrize("both_directions", [False, True])
def test_they_say_into_which_language_as_every_source_does(both_directions: bool) -> None:
    data = DataConfig(src_lang="en", tgt_lang="de", both_directions=both_directions)
    sources = made_up_sources(cast(Any, Tokenizer()), data, 64)
    lengths = {len(source) for source in sources}
    assert (len(sources), min(lengths) >= 1, len(lengths) > 20) == (64, True, True)
    assert all(N_SPECIAL <= token < SIZE for source in sources for token in source)
    assert ([source[0] for source in sources] == [DE, EN] * 32) is both_directions
    assert sources == made_up_sources(cast(Any, Tokenizer()), data, 64)
