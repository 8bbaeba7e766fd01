"""Every example in a docstring is true."""

import doctest
import importlib
import pkgutil
from importlib.util import find_spec

import pytest

import recoversat


def modules_with_examples() -> list[str]:
    """List them without importing any: one without examples may need what only a GPU's machine has."""
    names = ["recoversat", *(module.name for module in pkgutil.walk_packages(recoversat.__path__, "recoversat."))]
    sources = {name: spec.loader.get_source(name) for name in names if (spec := find_spec(name)) and spec.loader}
    return [name for name, source in sources.items() if source and ">>> " in source]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_are_true(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted
    assert not results.failed
