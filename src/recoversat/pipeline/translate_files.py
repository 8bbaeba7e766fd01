"""Translate files and streams line by line, in bounded memory, with one line out for each line in."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, tee
from pathlib import Path
from typing import IO, Any

from recoversat.errors import UserError
from recoversat.files.storage import atomic_file, decoded, decoded_lines, lines_of, whole_text
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
    min_confidence: float | None = None,
) -> None:
    """Translate files (or standard input) to a file, whole or not at all, or to standard output; `at_once` by lines.

    What is less sure than `min_confidence` is said to be doubtful in JSON lines, and stays untranslated in plain ones.
    """
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
                list(texts), segments=segments, batch_size=batch_size, beam=beam, force=force, alternatives=top_tokens,
                confidence=min_confidence is not None,
            )  # fmt: skip
        else:
            batch_size, window = (1, 1) if at_once else (batch_size, WINDOW)
            translations = translator.translate_iterable(
                texts, segments=segments, batch_size=batch_size, beam=beam, window=window, alternatives=top_tokens,
                scores=bool(top_tokens), confidence=min_confidence is not None, done=bar.advance,
            )  # fmt: skip
        left = 0
        for number, translation in enumerate(translations, 1):
            line = inspection.shown(translation, translator.config.data.tokenizer, forced, stream)
            is_doubtful = translation.is_doubtful(min_confidence)
            if keep is not None:
                told = _told(translation) | ({"doubtful": True} if is_doubtful else {})
                line = json.dumps(next(keep) | {"translation": translation.text} | told, ensure_ascii=False)
            elif is_doubtful:
                line, left = translation.source, left + 1
            stream.write(line + "\n")
            if at_once:
                stream.flush()
            if trace:
                write_trace(trace, translation, number, forced)
        stream.flush()
    if left:
        print(f"note: {left} lines are not translated, confidence below {min_confidence:g}", file=sys.stderr)


def translate_whole(
    translator: Translator,
    files: list[Path],
    out: Path | None,
    *,
    format: str,
    segments: WantedSegments,
    batch_size: int,
    beam: int = 1,
) -> None:
    """Translate files (or standard input) as texts, one after the other; spacing, placeholders and tags are kept."""
    texts = list(map(whole_text, files)) if files else [decoded(sys.stdin.buffer.read(), "standard input")]
    texts = [text if text.endswith("\n") else f"{text}\n" for text in texts[:-1]] + texts[-1:]
    documents = translator.translate_documents(
        texts, format=format, segments=segments, batch_size=batch_size, beam=beam
    )
    for sentence in (sentence for document in documents for sentence in document.split):
        print(f"note: a sentence was too long and translated in parts: {sentence[:60]}...", file=sys.stderr)
    with output_stream(out) as stream:
        stream.writelines(document.text for document in documents)


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


def _told(translation: Translation) -> dict[str, Any]:
    return {} if translation.confidence is None else {"confidence": round(translation.confidence, 4)}


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
