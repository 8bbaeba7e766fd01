"""Translate files and streams line by line, in bounded memory, with one line out for each line in."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, tee
from pathlib import Path
from typing import IO, Any

from recoversat.errors import UserError
from recoversat.files.storage import atomic_file, decoded_lines, lines_of
from recoversat.inference.forcing import force_words
from recoversat.inference.request import WantedSegments
from recoversat.inference.translation import Translation
from recoversat.show.inspection import Inspection, write_trace
from recoversat.show.progress import progress
from recoversat.translator import WINDOW, Translator

_PLAIN = Inspection()


def translate_lines(
    translator: Translator,
    files: list[Path],
    out: Path | None,
    *,
    segments: WantedSegments,
    batch_size: int = 32,
    beam: int = 1,
    jsonl: bool = False,
    at_once: bool = False,
    inspection: Inspection = _PLAIN,
) -> None:
    """Translate files (or standard input) to a file, whole or not at all, or to standard output; `at_once` by lines."""
    force, top_tokens = inspection.force, inspection.top_tokens
    if at_once and force:
        raise UserError("--line-buffered goes without --force, which looks at all lines together")
    forced = force_words(force, translator.tokenizer, translator.segments_for(segments)) if force else {}
    records, keep = tee(_records(files)) if jsonl else (None, None)
    texts = (record["text"] for record in records) if records is not None else input_lines(files)
    traced = output_stream(inspection.trace) if inspection.trace else nullcontext()
    hidden = out is None and sys.stdout.isatty()
    with output_stream(out) as stream, traced as trace, progress("translate", quiet=hidden) as bar:
        translations: Iterable[Translation]
        if force:  # an error names the line: all are translated in one go
            translations = translator.translate(
                list(texts), segments=segments, batch_size=batch_size, beam=beam, force=force, alternatives=top_tokens
            )
        else:
            batch_size, window = (1, 1) if at_once else (batch_size, WINDOW)
            translations = translator.translate_iterable(
                texts, segments=segments, batch_size=batch_size, beam=beam, window=window, alternatives=top_tokens,
                scores=bool(top_tokens), done=bar.advance,
            )  # fmt: skip
        for number, translation in enumerate(translations, 1):
            line = inspection.shown(translation, translator.config.data.tokenizer, forced, stream)
            if keep is not None:
                told = {} if translation.confidence is None else {"confidence": round(translation.confidence, 4)}
                line = json.dumps(next(keep) | {"translation": translation.text} | told, ensure_ascii=False)
            stream.write(line + "\n")
            if at_once:
                stream.flush()
            if trace:
                write_trace(trace, translation, number, forced)
        stream.flush()


def input_lines(files: list[Path]) -> Iterator[str]:
    """Yield the lines of all files, or of standard input where there are none."""
    if files:
        return chain.from_iterable(lines_of(path) for path in files)
    return decoded_lines(sys.stdin.buffer, "standard input")


@contextmanager
def output_stream(out: Path | None) -> Iterator[IO[str]]:
    """Open a file that appears whole or not at all, or standard output."""
    if out is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        yield sys.stdout
        return
    with atomic_file(out) as scratch, open(scratch, "w", encoding="utf-8", newline="\n") as stream:
        yield stream


def _records(files: list[Path]) -> Iterator[dict[str, Any]]:
    for some in [[path] for path in files] or [[]]:
        for number, line in enumerate(input_lines(some), 1):
            yield _record(line, ", ".join([*map(str, some), f"line {number}"]))


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line) if line.strip() else {"text": ""}  # one line out for each line in
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not JSON ({error.msg})") from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise UserError(f'{where}: expected an object with a "text", e.g. {{"text": "Hello"}}')
    if "\n" in record["text"]:
        raise UserError(f'{where}: "text" holds a line break; give one line an object')
    return record
