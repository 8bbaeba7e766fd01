"""How translated lines are looked at: segments as in the paper's Table 5, a trace of every step, forced words."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from recoversat.inference.translation import Translation
from recoversat.show.segments import Place, Screen, marks_for, segments_line
from recoversat.show.trace import N_TOP_TOKENS, trace_records


@dataclass(frozen=True)
class Inspection:
    """What is to be seen beside the translations; nothing, unless told."""

    show_segments: bool = False
    trace: Path | None = None
    force: Sequence[str] = ()

    @property
    def top_tokens(self) -> int:
        """Likeliest tokens noted at each position."""
        return N_TOP_TOKENS if self.trace else 0

    def shown(self, translation: Translation, tokenizer: str, forced: Collection[Place], stream: Screen) -> str:
        """Return the line for a translation: its text, or how it was put together."""
        if not self.show_segments:
            return translation.text
        return segments_line(translation, tokenizer, forced, marks_for(stream))


def write_trace(stream: IO[str], translation: Translation, number: int, forced: Collection[Place]) -> None:
    """Write every decoding step of a translation, as JSON lines."""
    for record in trace_records(translation, number, forced):
        stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
