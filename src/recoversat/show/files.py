"""Translate lines and show how: segments as in the paper's Table 5, a trace of every step, forced words."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from recoversat.errors import UserError
from recoversat.inference.forcing import force_words
from recoversat.inference.request import WantedSegments
from recoversat.inference.translation import Translation
from recoversat.pipeline.translate_files import input_lines, output_stream
from recoversat.show.segments import Place, marks_for, segments_line
from recoversat.show.trace import N_ALTERNATIVES, trace_records
from recoversat.translator import Translator


@dataclass(frozen=True)
class Inspection:
    """How translations are to be looked at."""

    show_segments: bool
    trace: Path | None
    force: Sequence[str]

    @classmethod
    def of(
        cls, show: str | None, trace: Path | None, force: Sequence[str] | None, *, jsonl: bool
    ) -> "Inspection | None":
        """Check the options of `translate`; None where nothing special is asked for."""
        if show not in (None, "segments"):
            raise UserError(f"--show {show}: there is only --show segments")
        if not (show or trace or force):
            return None
        if jsonl:
            raise UserError("--jsonl goes without --show, --trace and --force; --trace FILE writes JSON of its own")
        return cls(show == "segments", trace, force or ())


def show_lines(
    translator: Translator,
    files: list[Path],
    out: Path | None,
    inspection: Inspection,
    *,
    segments: WantedSegments,
    batch_size: int,
    beam: int,
    at_once: bool = False,
) -> None:
    """Write a line for each line: its translation, or with `show_segments` how it was put together."""
    if at_once and inspection.force:
        raise UserError("--line-buffered goes without --force, which looks at all lines together")
    lines = input_lines(files)
    # forced words are checked line by line, and an error names the line: those are translated in one go
    block_size = None if inspection.force else 1 if at_once else batch_size * 16
    traced = output_stream(inspection.trace) if inspection.trace else nullcontext(None)
    forced = frozenset(force_words(inspection.force, translator.tokenizer, translator.segments_for(segments)))
    with output_stream(out) as stream, traced as trace:
        writer = _Writer(stream, trace, translator.config.data.tokenizer, forced, inspection.show_segments)
        while block := list(islice(lines, block_size)):
            translations = translator.translate(
                block,
                segments=segments,
                batch_size=batch_size,
                beam=beam,
                force=inspection.force,
                alternatives=N_ALTERNATIVES if trace else 0,
            )
            for translation in translations:
                writer.write(translation)
            stream.flush()


class _Writer:
    """Writes translations one below the other, and their steps into the trace."""

    def __init__(
        self, stream: IO[str], trace: IO[str] | None, kind: str, forced: frozenset[Place], show_segments: bool
    ) -> None:
        self._stream, self._trace, self._kind, self._forced = stream, trace, kind, forced
        self._show_segments, self._marks, self._number = show_segments, marks_for(stream), 0

    def write(self, translation: Translation) -> None:
        self._number += 1
        shown = segments_line(translation, self._kind, self._forced, self._marks)
        self._stream.write((shown if self._show_segments else translation.text) + "\n")
        if self._trace:
            for record in trace_records(translation, self._number, self._forced):
                self._trace.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
