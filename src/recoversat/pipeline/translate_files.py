"""Translate files and streams line by line, in bounded memory, with one line out for each line in."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from recoversat.files.partial import PartialFile, kept_lines
from recoversat.files.records import Record
from recoversat.files.storage import decoded_line, faults_named, open_bytes, write_faults_named
from recoversat.inference.forcing import force_words
from recoversat.inference.request import Scores
from recoversat.inference.translation import Translation
from recoversat.pipeline.direction import Directions, turned
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import Job, output_stream
from recoversat.show.progress import progress
from recoversat.show.segments import Place, marks_for, segments_line
from recoversat.show.trace import N_TOP_TOKENS, write_trace
from recoversat.translator import WINDOW, Translator

_STDIN = "standard input"
_CHUNK = 1 << 20  # bytes read at a time to count lines
Settings = Callable[[], dict[str, Any]]  # all that an output depends on beside its input; asked for when it is begun


def translate_jobs(
    translator: Translator,
    jobs: Sequence[Job],
    asked: TranslateOptions,
    directions: Directions | None = None,
    settings: Settings | None = None,
) -> int:
    """Translate lines, in the translator's own direction where no other is given; returns how many were in error.

    With `settings` an output that was begun is kept when something stops the work, and the same call goes on there.
    """
    quiet = asked.at_once or (jobs[0].out is None and sys.stdout.isatty())
    total = None if quiet else _count([path for job in jobs for path in job.files])
    kept = sum(kept_lines(job.out) for job in jobs if job.out) if settings else 0
    # all lines of a file are read at a time where words are forced, so that an error names the line
    size = None if asked.force else 1 if asked.at_once else asked.batch_size * WINDOW
    errors, done = 0, []
    with (
        output_stream(asked.trace) if asked.trace else nullcontext() as traced,
        progress("translate", total, kept, quiet=quiet) as bar,
    ):
        writer = _LineWriter(translator, directions, asked, traced)
        for job in jobs:
            with _opened(job.out, settings, one_of_many=len(jobs) > 1) as output:
                for block in _blocks(job.files, size):
                    writer.choose_direction(block)
                    if not output.has(block.lines):
                        writer.write(block, output)
                        output.keep()
                        bar.advance(len(block.lines))
            errors += output.errors
            done.append(output)
        writer.tell_left()
    for output in done:
        output.forget()
    return errors


def translate_texts(translator: Translator, texts: Sequence[str], asked: TranslateOptions) -> list[Translation]:
    """Translate lines, and what has line breaks as documents that keep them.

    Where a confidence is asked for, a document is as sure as the least sure of its sentences, and translated by itself.
    """
    confidence = asked.min_confidence is not None

    def write(lines: list[str], scores: Scores) -> list[Translation]:
        return translator.translate(
            lines, segments=asked.segments, batch_size=asked.together, beam=asked.beam, scores=scores,
            confidence=confidence,
        )  # fmt: skip

    def write_documents(texts: list[str]) -> list[Translation]:
        sure: list[float] = []

        def noted(sentences: list[str]) -> list[str]:
            done = write(sentences, confidence and _scores(translator, asked))
            sure.extend(one.confidence for one in done if confidence and one.confidence is not None)
            return [one.text for one in done]

        done = translator.translate_documents(texts, translate=noted)
        least = min(sure, default=None)
        return [Translation(text, one.text, confidence=least) for text, one in zip(texts, done, strict=True)]

    broken = [text for text in texts if "\n" in text]
    groups = [[text] for text in broken] if confidence else [broken]
    documents = (one for group in groups for one in write_documents(group))
    each = iter(write([text for text in texts if "\n" not in text], _scores(translator, asked)))
    return [next(documents) if "\n" in text else next(each) for text in texts]


def _scores(translator: Translator, asked: TranslateOptions) -> Scores:
    """Say which log-probabilities somebody sees: all in a trace; those of K = 1 where they tell how sure it is."""
    if asked.trace:
        return True
    tells = asked.min_confidence is not None or (asked.jsonl and not asked.is_shared)  # workers hand on texts only
    return "one" if tells and translator.config.model.kind == "segments" else False


@dataclass(frozen=True)
class _Block:
    """Consecutive lines of an input."""

    name: str
    first: int  # number of its first line, from 0
    lines: list[bytes]

    def texts(self) -> list[str]:
        """Decode the lines; a byte that is not UTF-8 is named by file and line."""
        return [decoded_line(raw, self.name, self.first + i) for i, raw in enumerate(self.lines)]


def _blocks(files: list[Path], size: int | None) -> Iterator[_Block]:
    """Read files, or standard input where there are none, so many lines at a time; no block is of two files."""

    def cut(stream: IO[bytes], name: str) -> Iterator[_Block]:
        first = 0
        while lines := list(islice(stream, size)):
            yield _Block(name, first, lines)
            first += len(lines)

    if not files:
        yield from cut(sys.stdin.buffer, _STDIN)
    for path in files:
        with faults_named(path), open_bytes(path) as stream:
            yield from cut(stream, str(path))


def _count(files: list[Path]) -> int | None:
    if not files or not all(path.is_file() for path in files):
        return None
    lines = 0
    for path in files:
        with faults_named(path), open_bytes(path) as stream:
            last = b"\n"
            while chunk := stream.read(_CHUNK):
                lines, last = lines + chunk.count(b"\n"), chunk[-1:]
            lines += last != b"\n"
    return lines


class _StreamOutput:
    """Lines that are gone once they are written; else as a `PartialFile`."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self.errors = stream, 0

    def isatty(self) -> bool:
        return self._stream.isatty()

    def has(self, lines: Sequence[bytes]) -> bool:
        return False

    def write(self, line: str) -> None:
        self._stream.write(line)

    def keep(self) -> None:
        self._stream.flush()

    def forget(self) -> None:
        pass


_Output = _StreamOutput | PartialFile


@contextmanager
def _opened(out: Path | None, settings: Settings | None, *, one_of_many: bool) -> Iterator[_Output]:
    """Open an output: one that can be gone on with, where there are settings to know it by and a file to keep."""
    if out is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        with write_faults_named(Path("standard output")):
            yield _StreamOutput(sys.stdout)
    elif settings is None or (out.exists() and not out.is_file()):
        with output_stream(out) as stream:
            yield _StreamOutput(stream)
    else:
        with write_faults_named(out), PartialFile(out, settings(), one_of_many=one_of_many) as output:
            yield output


class _LineWriter:
    """Translates blocks and writes a line for each of theirs."""

    def __init__(
        self, translator: Translator, directions: Directions | None, asked: TranslateOptions, trace: IO[str] | None
    ) -> None:
        self._translator, self._directions, self._asked, self._trace = translator, directions, asked, trace
        self._number = self._left = 0

    def choose_direction(self, block: _Block) -> None:
        """Let the beginning of a file, or each line that is answered at once, say its language."""
        if self._directions and (block.first == 0 or self._asked.at_once):
            texts = [record.text for record in self._records(block)] if self._asked.jsonl else block.texts()
            direction = self._directions.choose("\n".join(texts), block.name, alone=self._asked.at_once)
            self._translator = turned(self._translator, direction)

    def write(self, block: _Block, output: _Output) -> None:
        if self._asked.jsonl:
            self._write_records(block, output)
        else:
            self._write_lines(block, output)

    def _write_lines(self, block: _Block, output: _Output) -> None:
        asked, translator = self._asked, self._translator
        forced: Collection[Place] = ()
        if asked.force:
            forced = force_words(asked.force, translator.tokenizer, translator.segments_for(asked.segments))
        translations = translator.translate(
            block.texts(), segments=asked.segments, batch_size=asked.together, beam=asked.beam, force=asked.force,
            alternatives=N_TOP_TOKENS if asked.trace else 0, scores=_scores(translator, asked),
            confidence=asked.min_confidence is not None,
        )  # fmt: skip
        for translation in translations:
            self._number += 1
            is_left = translation.is_doubtful(asked.min_confidence)
            self._left += is_left
            shown = translation.text
            if asked.show:
                shown = segments_line(translation, translator.config.data.tokenizer, forced, marks_for(output.isatty()))
            output.write((translation.source if is_left else shown) + "\n")
            if self._trace:
                write_trace(self._trace, translation, self._number, forced)

    def _write_records(self, block: _Block, output: _Output) -> None:
        asked, records = self._asked, self._records(block)
        translations = translate_texts(self._translator, [record.text for record in records], asked)
        for i, (record, translation) in enumerate(zip(records, translations, strict=True)):
            if record.error:
                output.errors += 1
                record.tell_error(f"{block.name}, line {block.first + i + 1}", output.errors)
            is_doubtful = translation.is_doubtful(asked.min_confidence)
            output.write(record.answered(translation.text, translation.confidence, is_doubtful) + "\n")

    def tell_left(self) -> None:
        if self._left:
            bound = f"confidence below {self._asked.min_confidence:g}"
            print(f"note: {self._left} lines are not translated, {bound}", file=sys.stderr)

    @staticmethod
    def _records(block: _Block) -> list[Record]:
        return [Record.parse(raw) for raw in block.lines]
