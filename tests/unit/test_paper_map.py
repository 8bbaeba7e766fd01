"""docs/paper-map.md leads from the paper to code and tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
TESTS = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
CODE = re.findall(r"`([\w/]+\.py):(\w+)`", PAGE)


def test_the_page_names_code_and_tests() -> None:
    assert len(TESTS) > 30
    assert len(CODE) > 25


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_a_named_test_exists(file: str, name: str) -> None:
    assert f"def {name}" in (ROOT / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(("file", "name"), CODE)
def test_a_named_function_exists(file: str, name: str) -> None:
    text = (ROOT / "src" / "recoversat" / file).read_text(encoding="utf-8")
    assert re.search(rf"^\s*(def|class) {name}\b|^{name}\b", text, flags=re.MULTILINE)
