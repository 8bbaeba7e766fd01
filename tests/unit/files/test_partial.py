"""Outputs that outlive a kill: what was kept is never written twice, lost, or taken for something else."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.files.partial import PartialFile, kept_lines
from recoversat.files.storage import faults_named, write_faults_named

BLOCKS = [[b"a\n", b"b\n"], [b"c\n", b"d\n"], [b"e"]]
WHOLE = "A\nB\nC\nD\nE\n"


class KilledError(BaseException):
    pass


def translate(out: Path, blocks: list[list[bytes]], kill_at: int | None = None, settings=None, **more: bool) -> int:
    """Write blocks in capitals; returns how many were new. `kill_at` block nothing more happens, as after a kill."""
    written = 0
    with PartialFile(out, settings or {"k": (1, 2)}, **more) as output:
        for number, block in enumerate(blocks):
            if output.has(block):
                continue
            if number == kill_at:
                raise KilledError
            for line in block:
                output.write(line.decode().strip().upper() + "\n")
            output.errors += 1
            output.keep()
            written += 1
    return written


def test_only_what_is_missing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    with pytest.raises(KilledError):
        translate(out, BLOCKS, kill_at=2)
    assert f"4 lines are done and kept in {out}.partial" in capsys.readouterr().err
    assert (out.read_text(), kept_lines(out)) == ("old", 4)
    with open(tmp_path / "out.partial", "a") as torn:
        torn.write("half a li")  # written, but not kept
    assert translate(out, BLOCKS) == 1
    assert out.read_text() == WHOLE
    assert list(tmp_path.iterdir()) == [out]
    assert translate(out, BLOCKS) == 3  # a finished one begins anew
    assert kept_lines(out) == 0


def test_the_count_of_errors_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        translate(tmp_path / "out", BLOCKS, kill_at=2)
    with PartialFile(tmp_path / "out", {"k": (1, 2)}) as output:
        assert output.errors == 2
        assert [output.has(block) for block in BLOCKS] == [True, True, False]
        output.write("E\n")
        output.keep()
    assert (tmp_path / "out").read_text() == WHOLE


@pytest.mark.parametrize(
    ("blocks", "settings", "message"),
    [
        (BLOCKS, {"k": (1, 3)}, r"other settings(?s:.*)k: \[1, 2\] -> \[1, 3\]"),
        ([[b"a\n", b"x\n"], *BLOCKS[1:]], None, "begun with another text"),
        ([[b"a\n", b"b\n", b"c\n"], [b"d\n", b"e"]], None, "begun with another text"),
        (BLOCKS[:1], None, "begun with a longer text"),
    ],
)
def test_nothing_goes_on_as_something_else(tmp_path: Path, blocks, settings, message: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(KilledError):
        translate(out, BLOCKS, kill_at=2)
    with pytest.raises(UserError, match=message):
        translate(out, blocks, settings=settings)
    assert translate(out, BLOCKS) == 1
    assert out.read_text() == WHOLE


def test_where_nothing_was_kept_nothing_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KilledError):
        translate(tmp_path / "out", BLOCKS, kill_at=0)
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().err == ""
    translate(tmp_path / "out", [])
    assert (tmp_path / "out").read_text() == ""


def test_one_of_many_is_remembered_until_all_are_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert translate(out, BLOCKS, one_of_many=True) == 3
    assert kept_lines(out) == 5
    assert translate(out, BLOCKS, one_of_many=True) == 0
    assert out.read_text() == WHOLE
    with pytest.raises(UserError, match="finished with a shorter text"):
        translate(out, [*BLOCKS, [b"f\n"]], one_of_many=True)
    with pytest.raises(UserError, match="begun with a longer text"):
        translate(out, BLOCKS[:2], one_of_many=True)
    out.unlink()
    assert translate(out, BLOCKS, one_of_many=True) == 3  # somebody has removed it
    with PartialFile(out, {"k": (1, 2)}, one_of_many=True) as output:
        assert all(map(output.has, BLOCKS))
    output.forget()
    assert list(tmp_path.iterdir()) == [out]


def test_an_output_is_compressed_as_its_name_says_and_a_link_stays_one(tmp_path: Path) -> None:
    for name in ("out.gz", "out.GZ"):
        translate(tmp_path / name, BLOCKS)
        assert gzip.decompress((tmp_path / name).read_bytes()).decode() == WHOLE
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "out")
    translate(tmp_path / "link", BLOCKS)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "out").read_text() == WHOLE


def test_a_damaged_record_and_somebody_elses_file_are_refused(tmp_path: Path) -> None:
    out, partial, record = (tmp_path / name for name in ("out", "out.partial", "out.partial.json"))
    partial.write_text("notes")
    with pytest.raises(UserError, match="rename or remove it"):
        translate(out, BLOCKS)
    assert partial.read_text() == "notes"
    partial.unlink()
    with pytest.raises(KilledError):
        translate(out, BLOCKS, kill_at=2)
    partial.write_text("A\n")  # shorter than what was kept
    with pytest.raises(UserError, match="rename or remove it"):
        translate(out, BLOCKS)
    record.write_text("{")
    with pytest.raises(UserError, match="damaged record"):
        translate(out, BLOCKS)
    record.write_text(json.dumps({"k": [1, 2]}))
    with pytest.raises(UserError, match="damaged record"):
        translate(out, BLOCKS)


def test_a_full_disk_keeps_the_blocks_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, write = tmp_path / "out", os.write

    def nearly_full(file: int, data: bytes) -> int:
        if data.startswith(b"C"):
            write(file, data[:1])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(UserError, match="the disk is full"), write_faults_named(out):
        translate(out, BLOCKS)
    assert kept_lines(out) == 2
    monkeypatch.undo()
    assert translate(out, BLOCKS) == 2
    assert out.read_text() == WHOLE


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_what_may_not_be_written_or_read_is_named(tmp_path: Path, number: int) -> None:
    with pytest.raises(UserError, match="x: may not be written"), write_faults_named(Path("x")):
        raise OSError(number, os.strerror(number))
    with pytest.raises(UserError, match="x: may not be read"), faults_named(Path("x")):
        raise PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(BrokenPipeError), write_faults_named(Path("x")):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
