"""The corpus of all trainings here; none of them changes it."""

import pytest

from recoversat.data.corpus import Corpus
from tests.unit.training.tiny import tiny_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return tiny_corpus(tmp_path_factory.mktemp("training"))
