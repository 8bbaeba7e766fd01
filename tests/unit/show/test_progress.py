"""Progress: lines for logs and pipes, a live bar with its note in a terminal."""

import pytest

from recoversat.show.progress import LineBar, progress


def test_lines_keep_the_last_note(capsys: pytest.CaptureFixture[str]) -> None:
    bar = LineBar("train", 10, 0, every_seconds=0)
    bar.advance(1, "loss 5.000  validation BLEU 3.21")
    bar.advance(1)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("train: 1/10")
    assert second.startswith("train: 2/10")
    assert first.endswith("  loss 5.000  validation BLEU 3.21")
    assert second.endswith("  loss 5.000  validation BLEU 3.21")


def test_what_is_said_stands_on_a_line_of_its_own_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("[2/7] teacher", 10) as bar:
        bar.advance(1, "not yet")
        bar.say("update 1: loss 5.000, validation BLEU 3.21 (the best so far)")
    assert capsys.readouterr().err == "[2/7] teacher: update 1: loss 5.000, validation BLEU 3.21 (the best so far)\n"


def test_nothing_is_said_where_quiet_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("train", 10, quiet=True) as bar:
        bar.advance(1, "loss")
        bar.say("update 1")
    assert not capsys.readouterr().err


def test_a_terminal_shows_the_note_beside_the_bar_and_what_is_said_above_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    with progress("[2/7] teacher", 10) as bar:
        bar.advance(1, "loss 5.000")
        bar.say("update 1: [bold] validation BLEU 3.21")  # text, not markup
    shown = capsys.readouterr().err
    assert "update 1: [bold] validation BLEU 3.21\n" in shown
    assert "[2/7] teacher" in shown
    assert "loss 5.000" in shown.rpartition("update 1")[2]
