"""Files as parts: whatever the format and compression, parts give back the lines, and outputs are of the same kind."""

import gzip
import json
import lzma
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from recoversat.cluster.inputs import Input, open_input
from recoversat.errors import UserError
from recoversat.files.storage import lines_of

# A byte-order mark, Windows line ends, an empty line, a line separator that ends no line, no line break at the end.
RAW = "\ufeffone\r\ntwo words\n\nthree\u2028four\r\r\n\ufefffive\nsix".encode()
LINES = ["one", "two words", "", "three\u2028four\r", "\ufefffive", "six"]


def zstd(raw: bytes) -> bytes:
    return bytes(pyarrow.compress(raw, "zstd", asbytes=True))


COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}
COMPRESSIONS |= {suffix.upper(): compress for suffix, compress in COMPRESSIONS.items()}


def texts_of(source: Input, size: int) -> list[str]:
    return [text for part in source.parts(size) for text in source.texts(part)]


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_parts_give_back_the_lines_and_come_out_compressed_as_they_went_in(
    tmp_path: Path, suffix: str, size: int
) -> None:
    path, out = tmp_path / f"in.txt{suffix}", tmp_path / f"out.txt{suffix}"
    path.write_bytes(COMPRESSIONS[suffix](RAW))
    source = open_input(path, jsonl=False)
    assert texts_of(source, size) == list(lines_of(path)) == LINES
    parts = list(source.parts(size))
    assert (
        [source.texts(part) for part in reversed(parts)]
        == [  # any order, as after a failure
            LINES[part.first : part.first + part.count] for part in reversed(parts)
        ]
    )
    source.write(out, ((part, [text.upper() for text in source.texts(part)]) for part in parts))
    whole = "".join(line.upper() + "\n" for line in LINES)
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(suffix.lower())
    if opened:
        assert opened(out).read().decode() == whole
    elif suffix.lower() == ".zst":
        assert pyarrow.input_stream(out, compression="zstd").read().decode() == whole
    else:
        assert out.read_bytes().decode() == whole


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in{suffix}"
    path.write_bytes(COMPRESSIONS[suffix]("".join(f"{n * n}\n" for n in range(5000)).encode())[:-50])
    with pytest.raises(UserError, match=rf"damaged {suffix} file"):
        list(open_input(path, jsonl=False).parts(10))


def test_a_changed_file_and_a_missing_one_are_named(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("a\nb\n")
    source = open_input(path, jsonl=False)
    (part,) = source.parts(2)
    path.write_text("a\nc\n")
    with pytest.raises(UserError, match="changed since the run was planned"):
        open_input(path, jsonl=False).texts(part)
    with pytest.raises(UserError, match="no such file"):
        list(open_input(tmp_path / "none", jsonl=False).parts(2))


def test_a_damaged_line_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"a\n" * 4 + b"\xff\n")
    source = open_input(path, jsonl=False)
    first, second = source.parts(3)
    assert source.texts(first) == ["a"] * 3
    with pytest.raises(UserError, match="line 5: not UTF-8"):
        source.texts(second)


@pytest.mark.parametrize(("line", "message"), [(b"\xff", "line 5: not UTF-8"), (b"{", "line 5: not JSON"),
    (b"[]", "line 5: expected an object"), (b'{"text": 1}', 'line 5: "text" is no text')])  # fmt: skip
def test_a_bad_record_is_one_error_and_all_others_are_translated(
    tmp_path: Path, line: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(b'{"text": "a"}\n' * 4 + line + b"\n")
    source = open_input(path, jsonl=True)
    assert texts_of(source, 3) == ["a"] * 4 + [""]
    assert source.write(out, ((part, [text.upper() for text in source.texts(part)]) for part in source.parts(3))) == 1
    *good, bad = map(json.loads, lines_of(out))
    assert good == [{"text": "a", "translation": "A"}] * 4
    assert "error" in bad
    assert "translation" not in bad
    assert message in capsys.readouterr().err


def test_fields_of_objects_are_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl.gz"
    path.write_bytes(gzip.compress('{"id": 1, "text": "ä"}\n\n{"text": "c", "x": [1, {"y": null}]}\n'.encode()))
    source = open_input(path, jsonl=True)
    assert texts_of(source, 2) == ["ä", "", "c"]
    source.write(out, ((part, [text.upper() for text in source.texts(part)]) for part in source.parts(2)))
    assert [json.loads(line) for line in lines_of(out)] == [
        {"id": 1, "text": "ä", "translation": "Ä"},
        {"text": "", "translation": ""},
        {"text": "c", "x": [1, {"y": None}], "translation": "C"},
    ]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_rows_of_parquet_keep_their_columns(tmp_path: Path, size: int) -> None:
    texts = [f"text {number}" for number in range(20)]
    table = pyarrow.table({"id": range(20), "text": texts, "tags": [["a", str(number)] for number in range(20)]})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet", row_group_size=6)
    source = open_input(tmp_path / "in.parquet", jsonl=False)
    assert texts_of(source, size) == texts
    parts = source.parts(size)
    source.write(tmp_path / "out.parquet", ((part, [text.upper() for text in source.texts(part)]) for part in parts))
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert written.to_pydict() == table.to_pydict() | {"translation": [text.upper() for text in texts]}


def test_a_row_without_text_has_no_translation(tmp_path: Path) -> None:
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", None, "b"]}), path)
    source = open_input(path, jsonl=False)
    assert texts_of(source, 2) == ["a", "", "b"]
    source.write(out, ((part, [text.upper() for text in source.texts(part)]) for part in source.parts(2)))
    assert pyarrow.parquet.read_table(out)["translation"].to_pylist() == ["A", None, "B"]


def test_what_is_wrong_with_a_parquet_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2]}), path)
    with pytest.raises(UserError, match='the column "text" is no text but int64'):
        open_input(path, jsonl=False)
    pyarrow.parquet.write_table(pyarrow.table({"sentence": ["a"]}), path)
    with pytest.raises(UserError, match='no column "text"; it has sentence'):
        open_input(path, jsonl=False)
    path.write_bytes(b"PAR1 or not")
    with pytest.raises(UserError, match="damaged Parquet file"):
        open_input(path, jsonl=False)
