"""docs/architecture.md names files and functions that exist, and the table of imports that is enforced."""

import re
from pathlib import Path

from tests.unit.test_imports import FORBIDDEN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`([\w./]+(?:/|\.py|\.toml|\.yaml|\.html))(?::\w+)?`", PAGE)))
NAMES = sorted(set(re.findall(r"`([\w./]+\.py):(\w+)`", PAGE)))


def found(path: str) -> Path:
    """Look below the package first, then beside it."""
    return next((base / path for base in (ROOT / "src" / "recoversat", ROOT) if (base / path).exists()), ROOT / path)


def test_the_page_names_paths_and_functions() -> None:
    assert len(PATHS) > 60
    assert len(NAMES) > 12
    assert len(PAGE.splitlines()) <= 140


def test_named_paths_and_functions_exist() -> None:
    lost = [path for path in PATHS if not (found(path).is_dir() if path.endswith("/") else found(path).is_file())]
    lost += [f"{path}:{name}" for path, name in NAMES if path not in lost and not defines(path, name)]
    assert lost == []


def defines(path: str, name: str) -> bool:
    text = found(path).read_text(encoding="utf-8")
    return bool(re.search(rf"^(def|class) {name}\b|^{name}\b", text, flags=re.MULTILINE))


def test_every_room_is_named() -> None:
    rooms = {path.name for path in (ROOT / "src" / "recoversat").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert not {room for room in rooms if f"{room}/" not in PATHS}


def test_the_table_of_imports_is_the_one_that_is_enforced() -> None:
    told: dict[str, set[str]] = {}
    table = PAGE.split("## Who may import whom")[1].split("\n## ")[0]
    for modules, forbidden in re.findall(r"^\| (`.*?) \| (.*) \|$", table, flags=re.MULTILINE):
        words = {"recoversat" if "anything of ours" in word else word for word in re.split(r", ", forbidden)}
        for module in re.findall(r"`(.*?)`", modules):
            told[_prefix(module)] = {_imported(word) for word in words}
    assert told == {prefix: {name.rstrip(".") for name in names} for prefix, names in FORBIDDEN.items()}


def _prefix(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _imported(word: str) -> str:
    path = re.search(r"`(.*?)`", word)
    return f"recoversat.{_prefix(path[1]).rstrip('.')}" if path else word
