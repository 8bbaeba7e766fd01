"""The first hour of a new user, with the real command and the built-in model: nothing is lost, nothing is a riddle."""

import gzip
import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.forking import Forked
from tests.system.tiny_model import write_tiny_model

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-m", "recoversat"]
DATA = Path(__file__).parents[1] / "data"
GERMAN, ENGLISH = "Das Wetter ist heute sehr schön.\n", "The children are playing in the garden.\n"
FRENCH = "Le chat dort sur le canapé pendant que la pluie tombe.\n"
IN_GERMAN = "Die Kinder spielen im Garten.\n"
HINT = "Type a line and press Enter; Ctrl-D ends"


# The language


def test_the_text_says_its_language(recoversat: Run) -> None:
    for options in ([], ["--from", "auto"]):
        done = recoversat("translate", *options, stdin=GERMAN)
        assert "weather" in done.stdout
        assert done.stderr == ""  # no terminal, no talk
        assert recoversat("translate", *options, stdin=ENGLISH).stdout == IN_GERMAN
    assert recoversat("translate", "--from", "de", stdin="Hotel\n").stderr == ""


def test_each_file_and_each_kind_of_input_says_its_own(recoversat: Run, tmp_path: Path) -> None:
    (tmp_path / "de.txt").write_text(GERMAN)
    (tmp_path / "en.txt").write_text(ENGLISH)
    first, second = recoversat("translate", tmp_path / "de.txt", tmp_path / "en.txt").stdout.splitlines()
    assert "weather" in first
    assert f"{second}\n" == IN_GERMAN
    records = recoversat("translate", "--jsonl", stdin=json.dumps({"text": GERMAN.strip(), "title": "English"})).stdout
    assert "weather" in json.loads(records)["translation"]
    page = f"<div class='container main-content'><p>{GERMAN.strip()}</p></div>"
    assert "weather" in recoversat("translate", "--format", "html", stdin=page).stdout
    recoversat("translate", tmp_path / "de.txt", "--workers", "1", "--out", tmp_path / "out")
    assert "weather" in (tmp_path / "out/de.txt").read_text()


def test_a_language_the_model_does_not_know_is_refused(recoversat: Run, tmp_path: Path) -> None:
    (tmp_path / "fr.txt").write_text(FRENCH)
    (tmp_path / "en.txt").write_text(ENGLISH)
    refused = recoversat("translate", tmp_path / "fr.txt", "--out", tmp_path / "out", expect=2)
    assert "fr.txt: this looks like French" in refused.stderr
    assert "--from en takes it for English" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["en.txt", "fr.txt"]
    assert recoversat("translate", "--from", "en", stdin=FRENCH).stdout
    with_target = recoversat("translate", "--from", "auto", "--to", "de", stdin=GERMAN, expect=2)
    assert "this looks like German, which is not translated here (only en -> de)" in with_target.stderr
    assert recoversat("translate", "--to", "de", stdin=ENGLISH).stdout == IN_GERMAN  # as ever: from English


def test_a_word_that_tells_nothing_is_translated_with_a_note(recoversat: Run) -> None:
    for text in ("OK\n", "Hotel\n"):
        done = recoversat("translate", stdin=text)
        assert done.stdout.strip()
        assert "too little text to tell its language; en -> de (--from de turns it)" in done.stderr
    for text in ("", "\n", "12345\n"):
        assert recoversat("translate", stdin=text).stderr == ""


def test_a_model_of_one_direction_says_what_it_takes_a_text_for(recoversat: Run, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    for text, language in ((GERMAN, "German"), (FRENCH, "French")):
        done = recoversat("translate", "--model", model, stdin=text)
        assert f"note: standard input looks like {language}; translated en -> de all the same" in done.stderr
    for options, text in (((), ENGLISH), (("--from", "en"), GERMAN)):
        assert recoversat("translate", "--model", model, *options, stdin=text).stderr == ""


# At a terminal


@contextmanager
def terminal(*arguments: object, keyboard: bool = True) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the command at a terminal of its own; yields it with the file to type into and read from."""
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    command = [*COMMAND, *map(str, arguments)]
    stdin = slave if keyboard else subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=stdin, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        process.kill()
        process.wait()
        os.close(master)


def read_until(master: int, expected: str, seconds: float = 60) -> str:
    """Read what a terminal shows until something is there; "" reads to the end."""
    seen, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        seen += piece
        if not piece or (expected and expected in seen.decode(errors="replace")):
            break
    text = seen.decode(errors="replace")
    assert expected in text, text
    return text


def test_who_types_gets_each_answer_at_once() -> None:
    with terminal("translate") as (process, screen):
        read_until(screen, HINT)
        os.write(screen, ENGLISH.encode())
        assert "en -> de" in read_until(screen, IN_GERMAN.strip())
        os.write(screen, GERMAN.encode())  # the next line may be of another language
        assert "de -> en" in read_until(screen, "weather")
        os.write(screen, FRENCH.encode())  # and no line ends the conversation
        read_until(screen, "looks like French")
        os.write(screen, ENGLISH.encode())
        read_until(screen, IN_GERMAN.strip())
        os.write(screen, b"\x04")
        assert process.wait(30) == 0


def test_a_text_is_typed_to_its_end() -> None:
    with terminal("translate", "--format", "text", "--to", "de") as (process, screen):
        read_until(screen, "Type text; Ctrl-D ends it and translates")
        os.write(screen, ENGLISH.encode() + b"\x04")
        read_until(screen, IN_GERMAN.strip())
        assert process.wait(30) == 0


def test_ctrl_c_ends_a_conversation_quietly() -> None:
    with terminal("translate", "--to", "de") as (process, screen):
        read_until(screen, HINT)
        os.write(screen, ENGLISH.encode())
        read_until(screen, IN_GERMAN.strip())
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in read_until(screen, "")
        assert process.wait(30) == 130


# Files


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "in.txt"
    path.write_text("".join((DATA / "tatoeba.en").read_text(encoding="utf-8").splitlines(keepends=True)[:240]))
    return path


@pytest.fixture(scope="module")
def whole(lines: Path, recoversat: Run) -> str:
    """What an undisturbed command writes; blocks are of 32 lines."""
    return recoversat("translate", lines, *SETTINGS).stdout


SETTINGS = ["--batch-size", "2", "--threads", "1"]


def marked_lines(out: Path) -> int:
    try:
        return int(json.loads((out.parent / f"{out.name}.partial.json").read_text())["mark"]["lines"])
    except FileNotFoundError:
        return 0


def stop_after(arguments: list[object], out: Path, n_lines: int, number: signal.Signals) -> tuple[int, str]:
    """Start a command and stop it when it has kept so many lines; returns its exit code and what it said."""
    with Forked(arguments) as process:
        deadline = time.monotonic() + 120
        while marked_lines(out) < n_lines:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.kill(process.pid, number)
        return process.wait(60), process.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_stopped_file_goes_on_where_it_stopped(
    lines: Path, whole: str, tmp_path: Path, recoversat: Run, number: signal.Signals
) -> None:
    out, partial = tmp_path / "out.txt", tmp_path / "out.txt.partial"
    command = ["translate", lines, "--out", out, *SETTINGS]
    code, said = stop_after(command, out, 64, number)
    assert code == (130 if number is signal.SIGINT else -number)
    if number is signal.SIGINT:
        assert f"lines are done and kept in {partial}; the same command goes on after them" in said
    assert "Traceback" not in said
    assert not out.exists()
    kept = marked_lines(out)
    assert 64 <= kept < 240
    whole_lines = whole.splitlines(keepends=True)
    assert partial.read_text().startswith("".join(whole_lines[:kept]))
    marker = "Was written before the stop.\n"  # goes on, and does not begin anew
    record = json.loads((tmp_path / "out.txt.partial.json").read_text())
    rest = partial.read_bytes()[record["mark"]["size"] :]
    partial.write_bytes(marker.encode() + rest)
    record["mark"]["size"] = len(marker)
    (tmp_path / "out.txt.partial.json").write_text(json.dumps(record))
    recoversat(*command)
    assert out.read_text() == "".join([marker, *whole_lines[kept:]])
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_nothing_goes_on_as_something_else(lines: Path, tmp_path: Path, recoversat: Run) -> None:
    text, out = tmp_path / "in.txt", tmp_path / "out.txt"
    text.write_bytes(lines.read_bytes())
    command = ["translate", text, "--out", out, *SETTINGS]
    stop_after(command, out, 32, signal.SIGKILL)
    refused = recoversat(*command, "--segments", "1", expect=2)
    assert "begun with other settings" in refused.stderr
    assert "segments: None -> 1" in refused.stderr
    assert f"remove {out}.partial.json and out.txt.partial to begin anew" in refused.stderr
    assert "no_shortlist: False -> True" in recoversat(*command, "--no-shortlist", expect=2).stderr
    text.write_text("Another first line.\n" + lines.read_text())
    assert "begun with another text" in recoversat(*command, expect=2).stderr
    text.write_text("One line.\n")
    assert "begun with a longer text" in recoversat(*command, expect=2).stderr
    text.write_bytes(lines.read_bytes() + b"One more line.\n")  # what is new at the end is only more work
    recoversat(*command)
    assert len(out.read_text().splitlines()) == 241
    out.unlink()
    (tmp_path / "out.txt.partial").write_text("My own notes.\n")
    assert "rename or remove it" in recoversat(*command, expect=2).stderr
    assert (tmp_path / "out.txt.partial").read_text() == "My own notes.\n"


def test_two_commands_do_not_write_one_file(lines: Path, tmp_path: Path, recoversat: Run) -> None:
    out = tmp_path / "out.txt"
    command = ["translate", lines, "--out", out, *SETTINGS]
    with Forked(command) as first:
        while not marked_lines(out):
            assert first.poll() is None
            time.sleep(0.005)
        assert "another translation writes it" in recoversat(*command, expect=2).stderr
        assert first.wait(120) == 0
    assert len(out.read_text().splitlines()) == 240


def small_disk() -> None:
    """A file may not grow beyond 3,000 bytes here."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))


def test_a_full_disk_is_said_and_loses_nothing(lines: Path, whole: str, tmp_path: Path, recoversat: Run) -> None:
    out = tmp_path / "out.txt"
    command = ["translate", lines, "--out", out, *SETTINGS]
    done = recoversat(*command, expect=2, preexec_fn=small_disk)
    assert f"error: {out}: the disk is full" in done.stderr
    assert "the same command goes on after them" in done.stderr
    assert not out.exists()
    recoversat(*command)
    assert out.read_text() == whole
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "translate", "--to", "de"]
        done = subprocess.run(command, input=ENGLISH, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode != 0
    assert (
        done.stderr
        == "error: standard output: the disk is full (No space left on device); make room or write elsewhere\n"
    )


def test_a_document_that_cannot_be_written_is_named(tmp_path: Path, recoversat: Run) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>Good morning!</p>\n" * 400)
    refused = recoversat("translate", "--from", "en", page, "--out", page / "x.html", expect=2)
    assert f"error: {page}/x.html: may not be written" in refused.stderr
    full = recoversat("translate", "--from", "en", page, "--out", tmp_path / "x.html", expect=2, preexec_fn=small_disk)
    assert f"error: {tmp_path}/x.html: the disk is full" in full.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with open("/dev/full", "w") as stream:
        command = [*COMMAND, "translate", "--from", "en", str(page)]
        done = subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2  # 1 would say that all but some records are there
    assert "error: standard output: the disk is full" in done.stderr


def test_standard_streams_may_be_closed(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(ENGLISH)

    def run(rest: str) -> subprocess.CompletedProcess[str]:
        command = f"{sys.executable} -m recoversat translate --to de {rest}"
        return subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (run("<&-").returncode, run("<&-").stderr) == (0, "")  # nothing to translate
    assert run("in.txt <&- 2>&-").stdout == IN_GERMAN
    refused = run("in.txt >&-")
    assert (refused.returncode, refused.stderr[:36]) == (2, "error: standard output is closed; le")


def test_a_damaged_line_stops_there_and_goes_on_when_mended(
    lines: Path, whole: str, tmp_path: Path, recoversat: Run
) -> None:
    text, out = tmp_path / "in.txt", tmp_path / "out.txt"
    raw = lines.read_bytes().splitlines(keepends=True)
    text.write_bytes(b"".join([*raw[:100], b"\xff" + raw[100], *raw[101:]]))
    refused = recoversat("translate", text, "--out", out, *SETTINGS, expect=2)
    assert f"{text}, line 101: not UTF-8" in refused.stderr
    assert f"96 lines are done and kept in {out}.partial" in refused.stderr
    text.write_bytes(b"".join(raw))
    recoversat("translate", text, "--out", out, *SETTINGS)
    assert out.read_text() == whole


def test_lines_on_standard_output_are_there_when_it_is_stopped(lines: Path, whole: str, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    with open(out, "wb") as stream:
        command = [*COMMAND, *map(str, ["translate", lines, *SETTINGS])]
        with subprocess.Popen(command, stdout=stream, stderr=subprocess.PIPE, text=True) as process:
            while not out.stat().st_size:
                assert process.poll() is None
                time.sleep(0.005)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    written = out.read_text()
    assert written.endswith("\n")
    assert whole.startswith(written)


def test_progress_has_a_total_a_rate_and_the_time_left(lines: Path, tmp_path: Path) -> None:
    with terminal("translate", lines, "--out", tmp_path / "out.txt", *SETTINGS, keyboard=False) as (process, screen):
        shown = read_until(screen, "240/240")
        assert process.wait(60) == 0
    assert "en -> de" in shown
    assert "/s" in shown
    assert "0:00:0" in shown


# Several files


def test_a_folder_gets_a_file_for_each(recoversat: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(ENGLISH)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(GERMAN.encode()))
    out = tmp_path / "out"
    recoversat("translate", "a.txt", "b.txt.gz", "--out", "out/", cwd=tmp_path)
    assert (out / "a.txt").read_text() == IN_GERMAN
    assert "weather" in gzip.decompress((out / "b.txt.gz").read_bytes()).decode()
    assert sorted(path.name for path in out.iterdir()) == ["a.txt", "b.txt.gz"]
    recoversat("translate", "a.txt", "--out", "out", "--format", "text", cwd=tmp_path)  # it exists now
    recoversat("translate", "a.txt", "a.txt", "--out", "both.txt", cwd=tmp_path)
    assert (tmp_path / "both.txt").read_text() == 2 * IN_GERMAN
    assert "name a file in it" in recoversat("translate", "--out", out, stdin=ENGLISH, expect=2).stderr


def test_no_file_is_lost(recoversat: Run, tmp_path: Path) -> None:
    text, folder = tmp_path / "a.txt", tmp_path / "folder"
    text.write_text(ENGLISH)
    folder.mkdir()
    (folder / "a.txt").write_text(ENGLISH)
    (tmp_path / "link").symlink_to(text)
    (tmp_path / "hard").hardlink_to(text)
    (tmp_path / "b.partial").write_text(ENGLISH)
    for arguments, message in [
        ([text, folder / "a.txt", "--out", f"{tmp_path}/out/"], "two inputs are called a.txt"),
        ([text, "--out", text], "writing it would destroy"),
        ([text, "--out", tmp_path / "link"], "writing it would destroy"),
        ([text, "--out", tmp_path / "hard"], "writing it would destroy"),
        ([text, "--out", tmp_path], "writing it would destroy"),
        ([tmp_path / "link", "--out", tmp_path / "x", "--trace", text], "writing it would destroy"),
        ([tmp_path / "b.partial", "--out", tmp_path / "b"], "writing it would destroy"),
        ([text, "--out", tmp_path / "x", "--trace", tmp_path / "x"], "name two files"),
        ([text, "--out", text / "x"], "may not be written"),
        ([tmp_path / "none", "--out", tmp_path / "x"], "none: no such file"),
        ([folder, "--out", tmp_path / "x"], "is a folder, not a text file"),
    ]:
        assert message in recoversat("translate", *arguments, expect=2).stderr
    assert text.read_text() == (folder / "a.txt").read_text() == ENGLISH
    assert not (tmp_path / "x").exists()


def test_files_that_are_done_are_not_done_again(lines: Path, whole: str, tmp_path: Path, recoversat: Run) -> None:
    (tmp_path / "a.txt").write_text(ENGLISH)
    (tmp_path / "b.txt").write_bytes(lines.read_bytes())
    out = tmp_path / "out"
    command = ["translate", tmp_path / "a.txt", tmp_path / "b.txt", "--out", f"{out}/", *SETTINGS]
    stop_after(command, out / "b.txt", 32, signal.SIGKILL)
    assert (out / "a.txt").read_text() == IN_GERMAN
    (out / "a.txt").write_text("Was written before the stop.\n")
    recoversat(*command)
    assert (out / "a.txt").read_text() == "Was written before the stop.\n"
    assert (out / "b.txt").read_text() == whole
    assert sorted(path.name for path in out.iterdir()) == ["a.txt", "b.txt"]
    recoversat(*command[:2], "--out", f"{out}/")  # a command that ended begins anew
    assert (out / "a.txt").read_text() == IN_GERMAN


# JSON lines


def test_one_bad_record_is_one_error(recoversat: Run, tmp_path: Path) -> None:
    text, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = [{"text": ENGLISH.strip(), "id": 1}, {"text": f"{ENGLISH}\n{ENGLISH}", "id": 2}]
    raw = [json.dumps(good[0]).encode(), b"{", b"\xff", b'{"id": 3}', json.dumps(good[1]).encode()]
    text.write_bytes(b"\n".join(raw) + b"\n")
    for more in ([], ["--workers", "1"]):
        name = tmp_path / "shared" if more else out
        done = recoversat("translate", text, "--jsonl", "--from", "en", "--out", name, *more, expect=1)
        path = name / "in.jsonl" if more else out
        records = [json.loads(line) for line in path.read_text().splitlines()]
        assert 0 < (0.5 if more else records[0].pop("confidence")) < 1  # several workers tell none
        assert records[0] == good[0] | {"translation": IN_GERMAN.strip()}
        assert records[4] == good[1] | {"translation": f"{IN_GERMAN}\n{IN_GERMAN}"}
        assert [record.get("error", "")[:8] for record in records] == ["", "not JSON", "not UTF-", "expected", ""]
        for number in (2, 3, 4):
            assert f"{text}, line {number}: " in done.stderr
        assert 'error: 3 records could not be translated; they have an "error" instead' in done.stderr


# The shell


def test_the_shell_completes_commands_and_options(tmp_path: Path, recoversat: Run) -> None:
    environment = os.environ | {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"  # the shell is named, not looked for
    recoversat("--install-completion", "bash", env=environment)
    script = (tmp_path / ".bash_completions" / "recoversat.sh").read_text()
    assert "_RECOVERSAT_COMPLETE=complete_bash" in script
    assert "recoversat.sh" in (tmp_path / ".bashrc").read_text()
    for words, position, expected in [
        ("recoversat transl", 1, "translate"),
        ("recoversat translate --bea", 2, "--beam"),
    ]:
        asked = {"_RECOVERSAT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        assert expected in recoversat(env=environment | asked).stdout.split()
