"""docs/paper-map.md leads from the paper to code and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
TESTS = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
CODE = re.findall(r"`([\w/]+\.py):(\w+)`", PAGE)


def test_the_page_names_code_and_tests() -> None:
    assert len(TESTS) > 30
    assert len(CODE) > 25


def test_named_tests_and_functions_exist() -> None:
    lost = [f"{file}::{name}" for file, name in TESTS if not has(ROOT / "tests" / file, rf"^def {name}\(")]
    lost += [
        f"{file}:{name}"
        for file, name in CODE
        if not has(ROOT / "src" / "recoversat" / file, rf"^\s*(def|class) {name}\b|^{name}\b")
    ]
    assert lost == []


def has(path: Path, pattern: str) -> bool:
    return path.is_file() and bool(re.search(pattern, path.read_text(encoding="utf-8"), flags=re.MULTILINE))
