"""A fuzz campaign: `make fuzz`, or `python tests/fuzz.py --texts 1000000 --sentences 10000 --progress fuzz.json`.

Snippets and nasty strings of `nasty.py`, mixed with any other characters, go through text handling with translators
that do odd things, and through the built-in model as the server translates, in batches. Nothing may raise, take over
two seconds, or lose a line break, a placeholder, a number, an address or a tag. Input n is the same every time, so that
a campaign may be run in parts: `--progress` remembers how far it came and what it found, and the next run goes on.
What is found is made small and printed; it then becomes a test.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

sys.path.insert(0, str(Path(__file__).parents[1]))

from recoversat.files.storage import write_text
from recoversat.text.documents.block import tags_in
from recoversat.text.documents.html import _lex
from recoversat.text.documents.translating import translate_documents
from recoversat.text.placeholders import hard_texts
from recoversat.text.wrapping import Wrapped, paragraphs
from tests.nasty import REPEATED, SNIPPETS, stretched

if TYPE_CHECKING:
    from recoversat.serve.work.catalog import ServedModel

Format = Literal["text", "html"]
Translate = Callable[[Sequence[str], Format], list[str]]

MOST_SECONDS = 2.0
BATCH = 32  # texts that go through the model together
ROUND = 1024  # texts between two notes of progress
MOST_FINDINGS = 50
_BREAKS = re.compile(r"\r\n|[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]")
_PLANES = [(0x20, 0x7F), (0, 0x250), (0x250, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000), (0xE0000, 0x110000)]

FAKES: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "nothing": lambda text: "",
    "twice": lambda text: f"{text} {text}",
    "lines": lambda text: f"\n{text}\r\n\r\n{text}\u2028",
    "backwards": lambda text: " ".join(reversed(text.split())),
    "invents": lambda text: f"{text} {{{{evil}}}} %s <b>😀</b> https://evil.org",
}


def nasty_text(rng: Random, parts: int, longest: int) -> str:
    """Put snippets, repetitions of at most so many characters, and anything else one after the other."""

    def part() -> str:
        kind = rng.random()
        if kind < 0.5:
            return rng.choice(SNIPPETS)
        if kind < 0.75:
            return stretched(*rng.choice(REPEATED), rng.randint(1, longest))
        return "".join(chr(rng.randrange(*rng.choice(_PLANES))) for _ in range(rng.randint(0, 12)))

    return "".join(part() for _ in range(rng.randint(0, parts)))


def check(text: str, result: str, format_: Format) -> None:
    """Compare what must survive."""
    if format_ == "html":
        assert _tags_of(result) == _tags_of(text), "tags"
        return
    assert _breaks_of(text).fullmatch("".join(_BREAKS.findall(result))), "line breaks"
    before, after = Counter(hard_texts(text)), Counter(hard_texts(result))
    assert before == after, f"lost {before - after}, new {after - before}"
    digits = set(filter(str.isdecimal, text))
    assert digits <= set(result), "a digit is lost"


def _tags_of(page: str) -> list[str]:
    """List the tags of a page; what stands in scripts and the like is none, whatever it looks like."""
    found = (tags_in(part) if kind == "picture" else [part] for kind, part in _lex(page) if kind != "text")
    return sorted(tag for tags in found for tag in tags)


def _breaks_of(text: str) -> re.Pattern[str]:
    """Say which line breaks a translation must have: those of the text, any number in a paragraph that was wrapped."""
    parts = (
        f"(?:{part.newline})*" if isinstance(part, Wrapped) else re.escape("".join(_BREAKS.findall(part)))
        for part in paragraphs(text)
    )
    return re.compile("".join(parts))


def attempt(texts: Sequence[str], format_: Format, translate: Translate) -> str:
    """Translate texts and check them; return what is wrong, or nothing."""
    start = time.thread_time()
    try:
        results = translate(texts, format_)
        seconds = time.thread_time() - start
        for text, result in zip(texts, results, strict=True):
            check(text, result, format_)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    # Together they may take longer; then each is timed by itself.
    return f"{seconds:.1f} seconds" if seconds > MOST_SECONDS else ""


def smaller(text: str, fails: Callable[[str], bool]) -> str:
    """Take away what is not needed to fail, half of it at first, in the end letter by letter."""
    size = len(text) // 2
    while size:
        at = 0
        while at < len(text):
            if fails(shorter := text[:at] + text[at + size :]):
                text = shorter
            else:
                at += size
        size //= 2
    return text


@dataclass
class Progress:
    """How many inputs have been tried, and what was found; written down where there is a file."""

    texts: int = 0
    sentences: int = 0
    findings: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path | None) -> "Progress":
        """Go on where the last run ended."""
        return cls(**json.loads(file.read_text(encoding="utf-8"))) if file and file.exists() else cls()

    def write(self, file: Path | None) -> None:
        """Remember how far it came."""
        print(f"{self.texts:,} texts, {self.sentences:,} through the model", file=sys.stderr, flush=True)
        if file:
            write_text(file, json.dumps(asdict(self), indent=1))

    def find(self, name: str, texts: Sequence[str], format_: Format, translate: Translate) -> None:
        """Try texts, each alone where something is wrong with them together; note what is, made small."""
        if not attempt(texts, format_, translate):
            return
        for text in texts:
            if attempt([text], format_, translate):
                small = smaller(text, lambda shorter: bool(attempt([shorter], format_, translate)))
                why = attempt([small], format_, translate)
                self.findings.append(f"{format_} with {name}: {small!r}: {why}")
                print(self.findings[-1], file=sys.stderr, flush=True)


def stand_in(fake: Callable[[str], str], texts: Sequence[str], format_: Format) -> list[str]:
    """Handle texts as the program does, with a translator of sentences that does odd things."""

    def translate(sentences: list[str]) -> list[str]:
        return [fake(sentence) for sentence in sentences]

    done = translate_documents(texts, translate, language="en", format=format_, fits=lambda part: len(part) <= 100)
    return [one.text for one in done]


def model_translate(texts: Sequence[str], format_: Format) -> list[str]:
    """Translate with the built-in model, as a worker of the server does."""
    from recoversat.serve.work.translating import BatchKey, Job, Outcome, Task, translate_tasks

    key = BatchKey("en", "de", None, format_ == "html")
    job = Job(_model(), key, BATCH, 1_000_000, lambda sentences, steps: None)
    done = translate_tasks(job, [Task(text) for text in texts])
    for one in done:
        if not isinstance(one, Outcome):
            raise one
    return [one.text for one in done if isinstance(one, Outcome)]


@cache
def _model() -> "ServedModel":
    from recoversat.serve.work.catalog import serve_model
    from recoversat.translator import Translator

    translator = Translator(source="en", target="de", device="cpu", intra_threads=1)
    return serve_model("en", "de", translator)


def campaign(options: argparse.Namespace) -> Progress:
    """Try as many inputs as are wanted, and not yet tried."""
    progress, fakes = Progress.read(options.progress), list(FAKES)
    while progress.texts < options.texts and len(progress.findings) < MOST_FINDINGS:
        number = progress.texts
        rng, name = Random(f"text {number}"), fakes[number % len(fakes)]
        format_: Format = "html" if number // len(fakes) % 2 else "text"
        progress.find(name, [nasty_text(rng, 12, 400)], format_, partial(stand_in, FAKES[name]))
        progress.texts += 1
        if progress.texts % ROUND == 0:
            progress.write(options.progress)
    while progress.sentences < options.sentences and len(progress.findings) < MOST_FINDINGS:
        number = progress.sentences
        rng, format_ = Random(f"sentence {number}"), "html" if number // BATCH % 2 else "text"
        size = min(BATCH, options.sentences - number)
        progress.find("the model", [nasty_text(rng, 5, 60) for _ in range(size)], format_, model_translate)
        progress.sentences += size
        progress.write(options.progress)
    progress.write(options.progress)
    return progress


def main() -> None:
    """Read the command line and run both campaigns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000, help="through text handling with stand-ins, in all")
    parser.add_argument("--sentences", type=int, default=200, help="through the built-in model, in all")
    parser.add_argument("--progress", type=Path, help="file that remembers how far it came")
    progress = campaign(parser.parse_args())
    sys.exit(f"{len(progress.findings)} findings" if progress.findings else 0)


if __name__ == "__main__":
    main()
