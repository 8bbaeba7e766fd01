"""Subtitles: what is said is translated, everything else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.errors import UserError
from recoversat.text.documents.srt import parse
from recoversat.text.documents.translating import translate_documents

TIMES = "00:00:01,000 --> 00:00:02,000\n"
FILM = """1
00:00:01,000 --> 00:00:03,500
<i>Two dogs run through
the deep snow.</i>

2
00:00:03,600 --> 00:00:05,000 X1:100 X2:200
{\\an8}- Where are you?
- Over here,
  behind the house!

00:00:06.000 --> 00:00:07.250
1984
4
00:01:02,000 --> 00:01:04,000
♪ la la la ♪ \x20
<font color="red">Stop</font> right there. I said
stop, and I mean it.

5
00:01:09,000 --> 00:01:10,000

"""
LETTERS = f"1\n{TIMES}a b\nc d\ne f\ng h i j k\n"


def translated(source: str, **words: str) -> str:
    def translate(texts: list[str]) -> list[str]:
        return [" ".join(words.get(word.strip(".,!?"), word) for word in text.split(" ")) for text in texts]

    return translate_documents([source], translate, language="en", format="srt")[0].text


@pytest.mark.parametrize("source", [FILM, FILM.replace("\n", "\r\n"), FILM.strip(), LETTERS, "", "\n\n"])
def test_a_translator_that_changes_nothing_gives_the_same_file(source: str) -> None:
    assert translated(source) == source


PIECES = ["a", "bc ", " ", "- ", "♪", "<i>", "</i>", "{\\an8}", "<", "12", ".", "\n", "\r\n", "\t", TIMES]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_whatever_is_said_comes_back(said: str) -> None:
    source = f"1\n{TIMES}{said}"
    document = parse(source)
    own = [block.source(0, len(block.text), slice(0, len(block.tags))) for block in document.blocks]
    assert document.put_back(own) == source


def test_lines_are_one_sentence_and_each_speaker_has_his_own() -> None:
    said = [block.text for block in parse(FILM).blocks]
    assert said[0] == "Two dogs run through the deep snow."
    assert said[1:4] == ["Where are you?", "Over here, behind the house!", "1984"]
    assert said[4].startswith("la la la ♪ Stop right there. I said stop, and")


def test_numbers_times_and_tags_stay_and_lines_are_broken_where_they_were() -> None:
    out = translated(FILM, dogs="Hunde", through="durch", deep="tiefen", here="hier", house="Hause")
    assert out.startswith("1\n00:00:01,000 --> 00:00:03,500\n<i>Two Hunde run durch\nthe tiefen snow.</i>\n\n2\n")
    assert "5,000 X1:100 X2:200\n{\\an8}- Where are you?\n- Over hier\n  behind the Hause\n\n00:00:06.000" in out
    assert '<font color="red">Stop</font> right there. I said\nstop' in out


def test_a_longer_translation_gets_more_lines() -> None:
    long = translated(f"1\n{TIMES}Donaudampf\n", Donaudampf="Donaudampf schiff fahrt " * 3)
    lines = long.splitlines()[2:]
    assert len(lines) == 2
    assert all(30 < len(line) <= 42 for line in lines)
    dos = translated(f"1\n{TIMES}Donaudampf\n".replace("\n", "\r\n"), Donaudampf="Donaudampf schiff fahrt " * 3)
    assert dos == long.replace("\n", "\r\n")
    wide = f"1\n{TIMES}{'word ' * 20}end\n"
    assert translated(wide) == wide  # as wide as its maker wanted it
    word = translated(f"1\n{TIMES}short one\n", short="x" * 60)
    assert word.splitlines()[2:] == ["x" * 60, "one"]


def test_words_that_do_not_fill_a_line_get_a_second_one_more() -> None:
    words = ["Donaudampfschifffahrts-", "Gesellschaftskapitaens-", "Muetzenbaenderfabrikant"]
    assert len(" ".join(words)) < 2 * 42  # two lines, if words could be cut
    long = translated(f"1\n{TIMES}Donaudampf\n", Donaudampf=" ".join(words))
    assert long.splitlines()[2:] == words


def test_a_space_in_a_tag_is_no_place_for_a_break() -> None:
    source = f'1\n{TIMES}Say <font color="red" face="x">no\nnow</font> please\n'
    assert translated(source) == source
    assert '<font color="red" face="x">' in translated(source, Say="Sag " + "a" * 30)


def test_other_text_is_no_subtitles() -> None:
    with pytest.raises(UserError, match="no line such as 00:00:01,000 --> 00:00:04,000"):
        parse("Two dogs run.\n")
