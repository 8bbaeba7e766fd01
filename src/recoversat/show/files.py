"""Translate lines and show how: segments as in the paper's Table 5, a trace of every step, forced words."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from recoversat.errors import UserError
from recoversat.inference.forcing import force_words
from recoversat.inference.request import WantedSegments
from recoversat.inference.translation import Translation
from recoversat.pipeline.translate_files import input_lines, output_stream
from recoversat.show.segments import marks_for, segments_line
from recoversat.show.trace import N_ALTERNATIVES, trace_records
from recoversat.translator import WINDOW, Translator


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
    lines, top_tokens = input_lines(files), N_ALTERNATIVES if inspection.trace else 0
    translations: Iterable[Translation]
    if inspection.force:  # an error names the line: all are translated in one go
        translations = translator.translate(
            list(lines), segments=segments, batch_size=batch_size, beam=beam, force=inspection.force,
            alternatives=top_tokens,
        )  # fmt: skip
    else:
        window = 1 if at_once else WINDOW
        batch_size = 1 if at_once else batch_size
        translations = translator.translate_iterable(
            lines, segments=segments, batch_size=batch_size, beam=beam, window=window, alternatives=top_tokens
        )
    traced = output_stream(inspection.trace) if inspection.trace else nullcontext(None)
    forced = frozenset(force_words(inspection.force, translator.tokenizer, translator.segments_for(segments)))
    with output_stream(out) as stream, traced as trace:
        marks, kind = marks_for(stream), translator.config.data.tokenizer
        for number, translation in enumerate(translations, 1):
            shown = segments_line(translation, kind, forced, marks) if inspection.show_segments else translation.text
            stream.write(shown + "\n")
            if at_once:
                stream.flush()
            if trace:
                records = trace_records(translation, number, forced)
                trace.writelines(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in records)
