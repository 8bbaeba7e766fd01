"""Which file is written where, and that no input can be lost by it."""

import os
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.pipeline.outputs import Job, plan_outputs


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    return [tmp_path / "a", tmp_path / "b"]


def test_a_file_takes_all_and_a_folder_one_for_each(files: list[Path], tmp_path: Path) -> None:
    assert plan_outputs([], None) == [Job([], None)]
    assert plan_outputs(files, str(tmp_path / "c")) == [Job(files, tmp_path / "c")]
    (tmp_path / "there").mkdir()
    for folder in ("there", "new/"):
        out = tmp_path / folder
        each = [Job([path], out / path.name) for path in files]
        assert plan_outputs(files, f"{tmp_path}/{folder}") == each
    assert plan_outputs([Path("/dev/null")], "/dev/null") == [Job([Path("/dev/null")], Path("/dev/null"))]


def test_no_input_is_written_over(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    os.link(tmp_path / "a", tmp_path / "hard")
    (tmp_path / "c.partial").write_text("c")
    (tmp_path / "d.partial.json").write_text("d")
    for name in ("a", "b", "link", "hard", "x/../a", ""):
        with pytest.raises(UserError, match="writing it would destroy"):
            plan_outputs(files, f"{tmp_path}/{name}")
    for name in ("c.partial", "d.partial.json"):
        with pytest.raises(UserError, match="writing it would destroy"):
            plan_outputs([tmp_path / name], f"{tmp_path}/{name[0]}")
    with pytest.raises(UserError, match="writing it would destroy"):
        plan_outputs(files, f"{tmp_path}/c", trace=tmp_path / "b")
    with pytest.raises(UserError, match="name two files"):
        plan_outputs(files, f"{tmp_path}/c", trace=tmp_path / "x" / ".." / "c")


def test_a_folder_needs_names_that_differ(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two inputs are called a"):
        plan_outputs([files[0], tmp_path / "other" / "a"], f"{tmp_path}/new/")
    with pytest.raises(UserError, match="name a file in it for what comes from standard input"):
        plan_outputs([], f"{tmp_path}/new/")
