"""Files line by line: whatever stands in a line, there is one line for it in the output."""

import json
from pathlib import Path

import pytest

from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import Job
from recoversat.pipeline.translate_documents import translate_documents
from recoversat.pipeline.translate_files import translate_jobs


def translated(translator, folder: Path, text: str) -> list[dict[str, object]]:
    (folder / "in").write_text(text, encoding="utf-8")
    translate_jobs(translator, [Job([folder / "in"], folder / "out")], TranslateOptions(batch_size=2, jsonl=True))
    return [json.loads(line) for line in (folder / "out").read_text(encoding="utf-8").splitlines()]


def test_a_blank_line_is_an_object_without_text(scripted, tmp_path: Path) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    records = translated(translator, tmp_path, '{"id": 1, "text": "a b"}\n\n  \n{"text": "", "id": 2}\n\n')
    empty = {"text": "", "translation": ""}
    assert records == [{"id": 1, "text": "a b", "translation": "the house"}, empty, empty, empty | {"id": 2}, empty]


@pytest.mark.parametrize(
    "line", ["a b", "[1]", '{"id": 1}', '{"text": 1}', r'{"text": "\ud800"}', "[" * 9999, "9" * 9999]
)
def test_what_is_no_object_with_a_text_is_one_error(scripted, tmp_path: Path, line: str, capsys) -> None:
    text = f'\n{{"text": "a b"}}\n{line}\n{{"text": "a b"}}\n'
    empty, good, bad, again = translated(scripted({"a b": ["the EOS"]}), tmp_path, text)
    assert (empty["translation"], good["translation"], again["translation"]) == ("", "the", "the")
    assert "error" in bad
    assert "translation" not in bad
    assert f"{tmp_path / 'in'}, line 3: {bad['error']}" in capsys.readouterr().err


def test_line_breaks_inside_a_text_stay(scripted, tmp_path: Path) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    texts = ["a b\n\na b", "a b", "a b\n", "\n"]
    records = translated(translator, tmp_path, "".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert [record["translation"] for record in records] == [text.replace("a b", "the house") for text in texts]


def test_files_are_texts_of_their_own(scripted, tmp_path: Path) -> None:
    for name, text in (("1", "a b"), ("2", "a b\n"), ("3", "a b")):
        (tmp_path / name).write_text(text)
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    files = [tmp_path / name for name in ("1", "2", "3")]
    translate_documents(translator, Job(files, tmp_path / "out"), TranslateOptions(format="text", batch_size=2))
    assert (tmp_path / "out").read_text() == "the house\nthe house\nthe house"
