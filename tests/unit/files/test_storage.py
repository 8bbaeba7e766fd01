"""Files appear whole under their names; what is no plain file is written into, never replaced."""

import gzip
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.files.storage import atomic_file, atomic_folder, held, lines_of, make_empty, sweep_partial, write_text


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

    monkeypatch.setattr("recoversat.files.storage.os.rename", interrupted)
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


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_text_of_another_encoding_is_not_taken_for_utf_8(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("Good morning!\nThank you.\n".encode(encoding))
    with pytest.raises(UserError, match=r"x.txt, line 1: .*convert it, e.g. with iconv"):
        list(lines_of(path))
    path.write_bytes(b"Good\0morning!\n\0\n")  # a zero here and there is text like any other
    assert list(lines_of(path)) == ["Good\0morning!", "\0"]


def test_a_folder_is_held_by_one_process_and_by_what_it_left_behind(tmp_path: Path) -> None:
    with held(tmp_path, "somebody is at work") as file:
        with pytest.raises(UserError, match="somebody is at work"), held(tmp_path, "somebody is at work", patience=0):
            pass
        orphan = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(file,))
    with pytest.raises(UserError, match="at work"), held(tmp_path, "at work", patience=0):
        pass
    end = threading.Timer(0.5, lambda: orphan.communicate(b"\n"))
    end.start()
    with held(tmp_path, "at work", patience=30):  # it is waited for
        assert orphan.wait(10) == 0
    end.join()


def test_a_folder_made_to_be_held_is_gone_unless_it_was_used(tmp_path: Path) -> None:
    for used in (False, True):
        with held(tmp_path / "new", "taken"):
            if used:
                (tmp_path / "new/file").touch()
        assert (tmp_path / "new").exists() is used
    with pytest.raises(UserError, match="file is a file; choose a folder"), held(tmp_path / "new/file", "taken"):
        pass


def test_a_folder_that_went_away_while_it_was_waited_for_is_made_again(tmp_path: Path) -> None:
    folder, there = tmp_path / "new", []

    def wait() -> None:
        with held(folder, "taken", patience=30):
            there.append(folder.is_dir())

    with held(folder, "taken"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.3)
    waiting.join(30)
    assert there == [True]


def test_a_folder_is_emptied_without_following_links(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    (outside / "kept").mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    (inside / "deep/file").touch()
    make_empty(inside)
    assert not list(inside.iterdir())
    assert (outside / "kept").is_dir()
