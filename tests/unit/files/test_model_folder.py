"""A model folder says who wrote it: an older program names the newer one instead of stumbling over its settings."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recoversat import __version__
from recoversat.cli.app import app
from recoversat.errors import UserError
from recoversat.files.model_folder import CONFIG, builtin_models, read_config


def folder_saying(tmp_path: Path, **changes: Any) -> Path:
    """Copy the settings of the built-in model, with changes."""
    values = json.loads((builtin_models()[0] / CONFIG).read_text(encoding="utf-8"))
    (tmp_path / CONFIG).write_text(json.dumps(values | changes), encoding="utf-8")
    return tmp_path


def test_a_newer_format_is_refused_with_the_fix_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    folder = folder_saying(tmp_path, format="recoversat-2", version="9.1")
    told = f"written by a newer recoversat \\(9.1, this is {__version__}\\); pip install -U recoversat$"
    with pytest.raises(UserError, match=told):
        read_config(folder)
    done = CliRunner().invoke(app, ["translate", "--model", str(folder)], input="Hello.\n")
    assert isinstance(done.exception, UserError)
    assert "written by a newer recoversat" in str(done.exception)


def test_a_setting_of_a_newer_version_is_its_not_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"written by a newer recoversat \(9\.1(.|\n)*made_up: no such key"):
        read_config(folder_saying(tmp_path, version="9.1", made_up=1))
    with pytest.raises(UserError) as error:
        read_config(folder_saying(tmp_path, version=__version__, made_up=1))
    assert "newer" not in str(error.value)


def test_a_newer_version_that_writes_the_same_format_is_read(tmp_path: Path) -> None:
    assert read_config(folder_saying(tmp_path, version="9.1")) == read_config(builtin_models()[0])


@pytest.mark.parametrize("format_", ["recoversat", "recoversat-x", "other-1", None])
def test_what_is_no_model_is_not_called_a_newer_one(tmp_path: Path, format_: str | None) -> None:
    with pytest.raises(UserError, match="not a model of recoversat"):
        read_config(folder_saying(tmp_path, format=format_))
