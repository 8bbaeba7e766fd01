"""`recoversat settings` shows every key there is, with the value it really has; docs/settings.md is what it prints."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recoversat.cli.app import app
from recoversat.config import DECODE_SETTINGS, PRESETS, load_config, parse_config
from recoversat.errors import UserError
from recoversat.show.settings import SECTIONS

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["settings", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def rows(text: str) -> dict[str, list[str]]:
    """Read the tables back: key -> the other cells."""
    cells = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if re.match(r"\| \w+\.", line)]
    return {key: others for key, *others in cells}


def test_the_page_of_the_documentation_is_what_the_command_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == printed(), "make it anew: recoversat settings > docs/settings.md"


def test_every_key_is_there_with_its_default_and_a_meaning() -> None:
    found = rows(printed())
    named = [f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields]
    assert [*found] == [*named, "decode.quality"]
    assert {key for key in found if key.startswith("decode.")} == {f"decode.{key}" for key in DECODE_SETTINGS}
    assert all(values and meaning for *_, values, meaning in found.values())
    del found["decode.quality"]  # read in the place of others, it has no value of its own
    assert load_config(overrides=[f"{key}={default}" for key, (default, *_) in found.items()]) == parse_config({})


def test_the_papers_symbols_stand_beside_their_keys() -> None:
    symbols = {key: symbol for key, (_, symbol, *_) in rows(printed()).items() if symbol}
    assert (symbols["train.segments"], symbols["train.random_prob"], symbols["train.repeat_prob"]) == ("K", "p", "q")
    assert (symbols["model.d_model"], symbols["train.warmup"]) == ("d_model", "t_warmup")
    assert "train.seed" not in symbols


def test_one_section_can_be_asked_for() -> None:
    assert {key.partition(".")[0] for key in rows(printed("decode"))} == {"decode"}
    done = CliRunner().invoke(app, ["settings", "trian"])
    assert isinstance(done.exception, UserError)
    assert "trian: no such section; did you mean train?" in str(done.exception)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_values_of_a_preset_stand_beside_the_defaults(preset: str) -> None:
    found = rows(printed("--preset", preset))
    del found["decode.quality"]
    values = [f"{key}={value}" for key, (_, value, *_) in found.items()]
    assert load_config(overrides=values) == load_config(preset=preset).model_copy(update={"preset": None})
