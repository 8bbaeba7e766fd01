"""Messages of programs: what has no translation gets one, all else stays."""

import gettext
import subprocess
from pathlib import Path

import polib
import pytest

from recoversat.errors import UserError
from recoversat.text.documents import Languages, parse
from recoversat.text.documents.translating import translate_documents
from tests.growth import LINEAR, slowdown

FILE = Path(__file__).parents[3] / "data" / "documents" / "messages.po"
SOURCE = FILE.read_text(encoding="utf-8")
TEMPLATE = """msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

msgid "one %d"
msgid_plural "many %d"
msgstr[0] ""
msgstr[1] ""
"""


def translated(source: str, target: str = "de") -> str:
    def shout(texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    return translate_documents([source], shout, language="en", target=target, format="po")[0].text


def test_a_rule_of_plurals_is_understood_once_for_all_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    understood: list[str] = []
    c2py = gettext.c2py  # type: ignore[attr-defined]
    monkeypatch.setattr(gettext, "c2py", lambda rule: understood.append(rule) or c2py(rule))
    rule = f"n==1 ? 0 : ({'+'.join(300 * 'n')}>3 ? 1 : 1)"
    header, message = TEMPLATE.split("\n\n")
    header = header.replace("nplurals=INTEGER; plural=EXPRESSION", f"nplurals=2; plural={rule}")
    many = "\n\n".join([header, *(message.replace("one", f"one {n}") for n in range(50))])
    parse(many, "po", Languages("en", "de"))
    assert understood == [rule]


def test_a_message_of_many_lines_takes_linear_time() -> None:
    def read(times: int) -> None:
        parse('msgid ""\n' + times * '"a"\n' + 'msgstr ""\n', "po", Languages("en", "de"))

    assert slowdown(read, 100_000) < LINEAR


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Save the <b>file</b> now.", "now. <b>file</b> the Save"),
        ("Please <a href='%s'>log in</a> now", "now <a href='%s'>in log</a> Please"),
        ("One two<br/>three four", "two One<br/>four three"),
        ("Run <code>a b</code> & wait", "wait & <code>a b</code> Run"),
        ("<b>Title</b>", "<b>Title</b>"),
        ("Copy <file> here", "here <file> Copy"),  # no tag of HTML
    ],
)
def test_tags_of_html_in_a_message_stay_around_their_words(message: str, expected: str) -> None:
    def turned_around(texts: list[str]) -> list[str]:
        return [" ".join(reversed(text.split(" "))) for text in texts]

    source = f'msgid "{message}"\nmsgstr ""\n'
    (done,) = translate_documents([source], turned_around, language="en", target="de", format="po")
    assert polib.pofile(done.text)[0].msgstr == expected


def test_only_what_has_no_translation_gets_one() -> None:
    before, after = polib.pofile(SOURCE), polib.pofile(translated(SOURCE))
    filled = {new.msgid: new for old, new in zip(before, after, strict=True) if not (old.translated() or old.obsolete)}
    assert [entry.msgid[:12] for entry in filled.values() if not entry.fuzzy] == [
        "Could not op", "%(count)d so", "Hello {name}",
    ]  # fmt: skip
    assert filled["Could not open %s: the disk is full."].msgstr == "COULD NOT OPEN %s: THE DISK IS FULL."
    assert filled["%(count)d song was found."].msgstr_plural == {
        0: "%(count)d SONG WAS FOUND.",
        1: "%(count)d SONGS WERE FOUND.",
    }
    told = next(entry.msgstr for entry in filled.values() if entry.msgid.startswith("Hello"))
    assert told == 'HELLO {name}, WELCOME BACK!\n\nYOU HAVE NOT LISTENED TO "{title}" FOR A LONG TIME.\n'
    for old, new in zip(before, after, strict=True):
        assert (old.msgid, old.msgctxt, old.flags, old.comment, old.occurrences, old.previous_msgid) == (
            new.msgid, new.msgctxt, new.flags, new.comment, new.occurrences, new.previous_msgid,
        )  # fmt: skip
        assert old.msgstr in ("", new.msgstr)
    assert after.metadata == before.metadata


def test_fuzzy_guesses_and_lines_that_are_done_stay_as_they_are() -> None:
    out = translated(SOURCE)
    for kept in ('msgstr[0] "%d Datei öffnen"\n', 'msgstr  "Tabulator', "#~ msgstr", "#, fuzzy, c-format\n#| msgid"):
        assert SOURCE.count(kept) == out.count(kept) == 1
    assert translated(out) == out
    assert translated(out.replace("\n", "\r\n")) == out.replace("\n", "\r\n")
    dos = translated(SOURCE.replace("\n", "\r\n"))
    assert dos == out.replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("target", "forms"), [("de", "oM"), ("pl", "oMM"), ("ja", "M"), ("fr-CA", "oM"), ("sl", "oMMM")]
)
def test_plurals_are_those_of_the_target_language(target: str, forms: str, tmp_path: Path) -> None:
    out = polib.pofile(translated(TEMPLATE, target))
    (entry,) = out
    wanted = ["ONE %d" if form == "o" else "MANY %d" for form in forms]
    assert list(entry.msgstr_plural.values())[: len(wanted)] == wanted
    assert out.metadata["Plural-Forms"].startswith(f"nplurals={len(forms)};")
    assert (out.metadata["Language"], out.metadata["Content-Type"][-5:]) == (target.replace("-", "_"), "UTF-8")


def test_the_header_s_own_rule_comes_first() -> None:
    odd = TEMPLATE.replace("nplurals=INTEGER; plural=EXPRESSION;", "nplurals=3; plural=n==1 ? 2 : n>5;")
    (entry,) = polib.pofile(translated(odd))
    assert list(entry.msgstr_plural.values()) == ["MANY %d", "MANY %d", "ONE %d"]


def test_gettext_accepts_what_is_written(tmp_path: Path) -> None:
    for name, text in (("a", translated(SOURCE)), ("b", translated(TEMPLATE, "ru"))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        subprocess.run(
            ["msgfmt", "--check-format", "-o", str(tmp_path / f"{name}.mo"), str(tmp_path / name)], check=True
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\n', "line 1: a message needs a msgid and a msgstr"),
        ('msgid "a\nmsgstr ""\n', "line 1: no line of a .po file"),
        ('msgid "a"b"\nmsgstr ""\n', "line 1: quotes within a string"),
        ('# x\nmsgid "a"\nmsgid "b"\nmsgstr ""\n', "line 3: a second msgid"),
        ("Two dogs run.\n", "line 1: no line of a .po file: Two dogs run."),
        (
            TEMPLATE.replace("nplurals=INTEGER; plural=EXPRESSION", "nplurals=2; plural=__import__"),
            "no rule of plurals",
        ),
        (TEMPLATE.replace("nplurals=INTEGER; plural=EXPRESSION", "nplurals=9; plural=0"), "nplurals is 1 to 6"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        translated(text)
