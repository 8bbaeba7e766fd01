"""Subtitles of the web: what is said is translated, everything else stays."""

from pathlib import Path

import pytest

from recoversat.errors import UserError
from recoversat.text.documents import parse
from recoversat.text.documents.translating import translate_documents

SOURCE = (Path(__file__).parents[3] / "data" / "documents" / "film.vtt").read_text(encoding="utf-8")
CUE = "WEBVTT\n\n00:01.000 --> 00:02.000\n"


def translated(source: str, **words: str) -> str:
    def translate(texts: list[str]) -> list[str]:
        return [" ".join(words.get(word, word) for word in text.split(" ")) for text in texts]

    return translate_documents([source], translate, language="en", format="vtt")[0].text


def test_what_is_said_is_read_without_tags_and_escapes() -> None:
    assert [block.text for block in parse(SOURCE, "vtt").blocks] == [
        "Two dogs run through the deep snow & the ice.", "Where are you?", "Over here, behind the house!",
        "It was 1 < 2.",
    ]  # fmt: skip


def test_styles_notes_settings_and_times_stay() -> None:
    out = translated(SOURCE, Two="Zwei", dogs="Hunde", run="laufen", was="war", snow="Schnee")
    assert out == SOURCE.replace("Two <b>dogs</b> run", "Zwei <b>Hunde</b> laufen").replace(
        "snow", "Schnee"
    ).replace("<00:00:06.500>was", "<00:00:06.500>war")  # fmt: skip


@pytest.mark.parametrize("said", ["a > b &amp; c", "a &gt; b", "a&nbsp;b c", "&lt;i&gt; a", "&copy; &amp;copy; a"])
def test_escapes_are_those_of_the_source(said: str) -> None:
    assert translated(f"{CUE}{said}\n", a="x") == f"{CUE}{said.replace('a ', 'x ').replace(' a', ' x')}\n"


def test_what_the_translation_brings_is_escaped() -> None:
    assert translated(f"{CUE}a\n", a="R&D <b> c") == f"{CUE}R&amp;D &lt;b> c\n"


def test_other_subtitles_are_refused() -> None:
    with pytest.raises(UserError, match="does not begin with WEBVTT"):
        parse(CUE.removeprefix("WEBVTT\n"), "vtt")
    assert translated("WEBVTT\n") == "WEBVTT\n"
