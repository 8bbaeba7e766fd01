"""Segments as in the paper's Table 5."""

import io

import pytest

from recoversat.inference.translation import Segment, Translation
from recoversat.show.segments import COLOUR, PLAIN, marks_for, segments_line


def translation(*segments):
    return Translation("src", "text", [Segment("", pieces, [7] * len(pieces), end, []) for pieces, end in segments])


def test_the_papers_example_reads_as_in_its_table():
    """Table 5, translation A, its last four segments."""
    shown = segments_line(
        translation(
            (["▁in", "▁the", "▁concentration", "▁camps", "▁and"], "eos"),
            (["▁in"], "del"),
            (["▁gas"], "eos"),
            (["▁cham", "bers", "▁."], "eos"),
        ),
        "sentencepiece",
    )
    assert shown == "[1] in the concentration camps and EOS  [2] ~~in DEL~~  [3] gas EOS  [4] cham_bers . EOS"


def test_split_text_is_joined_the_same_way():
    assert segments_line(translation((["gas", "cham@@", "bers"], "eos")), "bpe") == "[1] gas cham_bers EOS"


def test_a_word_cut_between_two_segments_shows_on_which_side():
    pieces = translation((["▁gas", "▁cham"], "eos"), (["bers"], "eos"))
    assert segments_line(pieces, "sentencepiece") == "[1] gas cham EOS  [2] _bers EOS"
    assert segments_line(translation((["cham@@"], "eos"), (["bers"], "eos")), "bpe") == "[1] cham_ EOS  [2] bers EOS"


def test_empty_and_cut_off_segments_are_marked():
    assert segments_line(translation(([], "eos"), ([], "del"), (["a"], "cut")), "bpe") == (
        "[1] EOS  [2] ~~DEL~~  [3] a CUT"
    )


def test_an_overlap_is_struck_out():
    segments = [
        Segment("", ["▁by"], [7], "eos", []),
        Segment("", ["▁by", "▁leaves"], [7, 8], "eos", [], left_out=frozenset({0})),
    ]
    shown = segments_line(Translation("src", "by leaves", segments), "sentencepiece")
    assert shown == "[1] by EOS  [2] ~~by~~ leaves EOS"


def test_a_lone_space_piece_stays_visible():
    assert segments_line(translation((["▁", "x"], "eos")), "sentencepiece") == "[1] ▁_x EOS"


def test_forced_pieces_are_marked_one_by_one():
    shown = segments_line(translation((["▁cham", "bers", "▁."], "eos")), "sentencepiece", {(0, 0), (0, 1)})
    assert shown == "[1] {cham}_{bers} . EOS"


def test_colours_strike_out_all_of_a_deleted_segment_even_around_a_forced_piece():
    shown = segments_line(translation((["in", "the"], "del")), "bpe", {(0, 0)}, COLOUR)
    assert shown == "\x1b[36m[1]\x1b[39m \x1b[2;9m\x1b[32min\x1b[39m the DEL\x1b[22;29m"
    assert "\x1b[0m" not in shown


def test_nothing_is_shown_for_an_empty_line():
    assert segments_line(Translation("", ""), "bpe") == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "marks"),
    [
        (Terminal(), {}, COLOUR),
        (io.StringIO(), {}, PLAIN),
        (Terminal(), {"TERM": "dumb"}, PLAIN),
        (Terminal(), {"NO_COLOR": "1"}, PLAIN),
        (io.StringIO(), {"FORCE_COLOR": "1"}, COLOUR),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN),
    ],
)
def test_colour_is_for_terminals_and_the_environment_wins(stream, environment, marks, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert marks_for(stream.isatty()) is marks
