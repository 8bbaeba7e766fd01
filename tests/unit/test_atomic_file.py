"""Files appear whole under their names; what is no plain file is written into, never replaced."""

import gzip
import os
import stat
import threading
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.storage import atomic_file, atomic_folder, lines_of, sweep_partial, write_text


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "hello")
    reader.join(10)
    assert read == ["hello"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_a_device() -> None:
    write_text(Path("/dev/null"), "gone")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_link_keeps_pointing_where_it_does(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_the_umask_is_respected(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with atomic_file(tmp_path / "private") as scratch:
            scratch.write_text("mine")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_an_interrupted_replacement_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final = tmp_path / "best"
    with atomic_folder(final) as folder:
        write_text(folder / "x", "old")
    rename = os.rename

    def interrupted(one: Path, other: Path) -> None:
        if other == final and one.name.endswith(".partial"):
            raise KeyboardInterrupt
        rename(one, other)

    monkeypatch.setattr("recoversat.storage.os.rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(final, replace=True) as folder:
        write_text(folder / "x", "new")
    assert (final / "x").read_text() == "old"
    assert list(tmp_path.iterdir()) == [final]


def test_only_the_scratch_of_one_name_is_swept(tmp_path: Path) -> None:
    names = [".corpus.12345678.partial", ".corpus.v2.12345678.partial", ".test.de.abcdefgh.partial", ".mine.partial"]
    for name in names:
        (tmp_path / name).touch()
    sweep_partial(tmp_path, "corpus")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_gzip_file_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(2000) + b"a line\n" * 2000)
    (tmp_path / "x.gz").write_bytes(whole[:1000] + bytes(200) + whole[1200:])
    with pytest.raises(UserError, match=r"x\.gz"):
        list(lines_of(tmp_path / "x.gz"))
