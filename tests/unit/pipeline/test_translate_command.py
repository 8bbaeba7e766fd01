"""What is asked of `translate`: several workers translate in one direction."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recoversat.cli import app
from recoversat.errors import UserError
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.translate_command import in_one_direction

GERMAN, ENGLISH = "Das Wetter ist heute sehr schön.\n", "The weather is very nice today.\n"


def written(folder: Path, *texts: str) -> list[Path]:
    """Write a file for each text."""
    files = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return files


@pytest.mark.parametrize(
    ("texts", "direction"),
    [
        ((GERMAN, "12\n", GERMAN), ("de", "en")),
        (("", GERMAN), ("de", "en")),
        ((GERMAN, "OK\n"), ("de", "en")),
        ((ENGLISH,), ("en", "de")),
        (("", "12\n"), ("en", "de")),
    ],
)
def test_several_workers_take_the_direction_that_all_files_have(texts, direction, tmp_path: Path) -> None:
    choice = in_one_direction(TranslateOptions(written(tmp_path, *texts)))
    assert (choice.source, choice.target) == direction


def test_files_of_two_languages_are_refused_by_several_workers(tmp_path: Path) -> None:
    files = written(tmp_path, GERMAN, ENGLISH)
    command = ["translate", *map(str, files), "--workers", "1", "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, command).exception
    assert isinstance(refused, UserError)
    assert f"{files[0]} is de -> en, {files[1]} is en -> de" in str(refused)
    assert "--from" in str(refused)
    assert not (tmp_path / "out").exists()
    refused = CliRunner().invoke(app, [*command[:-1], str(files[0])]).exception
    assert "is a file: --workers, --cluster and --shard write to a folder" in str(refused)
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it: whoever reads it waits for ever
    refused = CliRunner().invoke(app, ["translate", str(tmp_path / "pipe"), "--from", "en", *command[3:]]).exception
    assert "pipe is a pipe, which can be read once" in str(refused)
    named = in_one_direction(TranslateOptions(files, source="en", target="de"))
    assert (named.source, named.target) == ("en", "de")
