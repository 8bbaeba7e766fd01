"""Files line by line: whatever stands in a line, there is one line for it in the output."""

import json
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.pipeline.translate_documents import translate_documents
from recoversat.pipeline.translate_files import translate_lines


def translated(translator, folder: Path, text: str) -> list[dict[str, object]]:
    (folder / "in").write_text(text, encoding="utf-8")
    translate_lines(translator, [folder / "in"], folder / "out", segments=None, batch_size=2, jsonl=True)
    return [json.loads(line) for line in (folder / "out").read_text(encoding="utf-8").splitlines()]


def test_a_blank_line_is_an_object_without_text(scripted, tmp_path: Path) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    records = translated(translator, tmp_path, '{"id": 1, "text": "a b"}\n\n  \n{"text": "", "id": 2}\n\n')
    empty = {"text": "", "translation": ""}
    assert records == [{"id": 1, "text": "a b", "translation": "the house"}, empty, empty, empty | {"id": 2}, empty]


@pytest.mark.parametrize("line", ["a b", "[1]", '{"id": 1}', '{"text": 1}', r'{"text": "a\nb"}'])
def test_what_is_no_object_with_a_text_is_named_by_its_line(scripted, tmp_path: Path, line: str) -> None:
    with pytest.raises(UserError, match="line 3: "):
        translated(scripted({"a b": ["the EOS"]}), tmp_path, f'\n{{"text": "a b"}}\n{line}\n')
    assert not (tmp_path / "out").exists()


def test_files_are_texts_of_their_own(scripted, tmp_path: Path) -> None:
    for name, text in (("1", "a b"), ("2", "a b\n"), ("3", "a b")):
        (tmp_path / name).write_text(text)
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    files = [tmp_path / name for name in ("1", "2", "3")]
    translate_documents(translator, files, tmp_path / "out", format="text", segments=None, batch_size=2)
    assert (tmp_path / "out").read_text() == "the house\nthe house\nthe house"
