"""A fuzz campaign: `make fuzz`, or `python tests/fuzz.py --texts 1000000 --sentences 10000`.

Snippets and nasty strings of `nasty.py`, mixed with anything else hypothesis comes up with, go through text handling
with translators that do odd things, and through the built-in model as the server translates. Nothing may raise, take
over two seconds, or lose a line break, a placeholder, a number, an address or a tag. What is found is made small
and printed; it then becomes a test.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))

from recoversat.text.documents.block import tags_in
from recoversat.text.documents.translating import translate_documents
from recoversat.text.placeholders import hard_texts
from tests.nasty import REPEATED, SNIPPETS, stretched

if TYPE_CHECKING:
    from recoversat.serve.work.catalog import ServedModel

Format = Literal["text", "html"]
Translate = Callable[[str, Format], str]

MOST_SECONDS = 2.0
ROUND = 5_000  # examples for each seed: hypothesis remembers what it has tried, and that grows
_BREAKS = re.compile(r"\r\n|[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]")

FAKES: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "nothing": lambda text: "",
    "twice": lambda text: f"{text} {text}",
    "lines": lambda text: f"\n{text}\r\n\r\n{text}\u2028",
    "backwards": lambda text: " ".join(reversed(text.split())),
    "invents": lambda text: f"{text} {{{{evil}}}} %s <b>😀</b> https://evil.org",
}

nasty = st.builds(lambda unit, length: stretched(*unit, length), st.sampled_from(REPEATED), st.integers(1, 400))
anything = st.lists(st.sampled_from(SNIPPETS) | nasty | st.text(max_size=12), max_size=12).map("".join)


def check(text: str, format_: Format, translate: Translate) -> None:
    """Translate a text, and compare what must survive."""
    start = time.thread_time()
    result = translate(text, format_)
    seconds = time.thread_time() - start
    assert seconds < MOST_SECONDS, f"{seconds:.1f} seconds"
    if format_ == "html":
        assert sorted(tags_in(result)) == sorted(tags_in(text))
        return
    assert _BREAKS.findall(result) == _BREAKS.findall(text)
    lost = [span for span, count in Counter(hard_texts(text)).items() if result.count(span) < count]
    assert not lost, f"lost {lost}"
    digits = "".join(sorted(filter(str.isdecimal, text)))
    assert set(digits) <= set(result), "a digit is lost"


def stand_in(name: str) -> Translate:
    """Make a translator of whole texts of one that does odd things to sentences."""

    def translate(text: str, format_: Format) -> str:
        fake = FAKES[name]
        return translate_documents(
            [text],
            lambda texts: [fake(one) for one in texts],
            language="en",
            format=format_,
            fits=lambda part: len(part) <= 100,
        )[0].text

    return translate


def model_translate(text: str, format_: Format) -> str:
    """Translate with the built-in model, as a worker of the server does."""
    from recoversat.serve.work.translating import BatchKey, Job, Outcome, Task, translate_tasks

    key = BatchKey("en", "de", None, format_ == "html")
    (done,) = translate_tasks(Job(_model(), key, 32, 1_000_000, lambda sentences, steps: None), [Task(text)])
    if not isinstance(done, Outcome):
        raise done
    return done.text


@cache
def _model() -> "ServedModel":
    from recoversat.serve.work.catalog import serve_model
    from recoversat.translator import Translator

    translator = Translator(source="en", target="de", device="cpu", intra_threads=1)
    return serve_model("en", "de", translator, translator.config.model.max_segments)


def campaign(count: int, translators: st.SearchStrategy[tuple[str, Translate]], first_seed: int) -> None:
    """Try so many texts; the first that fails is made small and raised."""
    for round_, done in enumerate(range(0, count, ROUND)):

        @seed(first_seed + round_)
        @settings(
            max_examples=min(ROUND, count - done), deadline=None, database=None,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink], print_blob=False,
        )  # fmt: skip
        @given(text=anything, format_=st.sampled_from(["text", "html"]), translator=translators)
        def attempt(text: str, format_: Format, translator: tuple[str, Translate]) -> None:
            try:
                check(text, format_, translator[1])
            except BaseException as error:
                error.add_note(f"\n{format_} with {translator[0]}: {text!r}")
                raise

        attempt()
        print(f"{min(done + ROUND, count):,} of {count:,}", file=sys.stderr, flush=True)


def main() -> None:
    """Read the command line and run both campaigns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000, help="through text handling with stand-ins")
    parser.add_argument("--sentences", type=int, default=200, help="through the built-in model")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    campaign(options.texts, st.sampled_from([(name, stand_in(name)) for name in FAKES]), options.seed)
    campaign(options.sentences, st.just(("the model", model_translate)), options.seed)


if __name__ == "__main__":
    main()
