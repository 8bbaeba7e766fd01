"""Every decoding step as JSON lines, for a page that draws how a translation came about: see docs/trace.md."""

import json
import math
from collections.abc import Collection, Iterator
from typing import IO, Any

from recoversat.inference.translation import Segment, Translation
from recoversat.show.segments import Place
from recoversat.vocab import DEL, EOS, SPECIAL_PIECES

FORMAT = "recoversat-trace-1"
N_TOP_TOKENS = 5

_TERMINATORS = {"eos": SPECIAL_PIECES[EOS], "del": SPECIAL_PIECES[DEL]}
_DIGITS = 6  # of a probability: enough to draw, small enough to send


def trace_records(translation: Translation, number: int, forced: Collection[Place] = ()) -> Iterator[dict[str, Any]]:
    """Yield a record for the sentence, then one for each decoding step; everything is counted from 1."""
    yield {
        "type": "sentence",
        "format": FORMAT,
        "sentence": number,
        "source": translation.source,
        "translation": translation.text,
        "steps": translation.steps,
        "repairs": list(translation.repairs),
        "score": _rounded(translation.score),
        "segments": [_segment(segment) for segment in translation.segments],
    }
    longest = max((len(segment.log_probs) for segment in translation.segments), default=0)
    positions = range(1, longest + 1)
    at_once = translation.steps == 1  # a one-step model writes every position in its only step
    for step in [1] if at_once else positions:
        written = positions if at_once else [step]
        tokens = [token for position in written for token in _tokens(translation, position, forced)]
        yield {"type": "step", "sentence": number, "step": step, "tokens": tokens}


def write_trace(stream: IO[str], translation: Translation, number: int, forced: Collection[Place]) -> None:
    for record in trace_records(translation, number, forced):
        stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "text": segment.text,
        "length": len(segment.ids),
        "ending": segment.ending,
        "overlap": segment.overlap,
        "left_out": [position + 1 for position in sorted(segment.left_out)],
        "score": _rounded(segment.score),
    }


def _tokens(translation: Translation, position: int, forced: Collection[Place]) -> list[dict[str, Any]]:
    """List what each segment that was still open wrote at this position."""
    return [
        _token(segment, index, position) | {"forced": (index, position - 1) in forced}
        for index, segment in enumerate(translation.segments)
        if position <= len(segment.log_probs)
    ]


def _token(segment: Segment, index: int, position: int) -> dict[str, Any]:
    closes = position == len(segment.log_probs)
    is_terminator = position > len(segment.pieces)
    return {
        "segment": index + 1,
        "position": position,
        "piece": _TERMINATORS[segment.ending] if is_terminator else segment.pieces[position - 1],
        "probability": _probability(segment.log_probs[position - 1]),
        "ending": segment.ending if closes else None,
        "alternatives": [
            {"piece": piece, "probability": _probability(log_prob)}
            for piece, log_prob in (segment.alternatives[position - 1] if segment.alternatives else [])
        ],
    }


def _probability(log_prob: float) -> float:
    return _rounded(math.exp(log_prob))


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
