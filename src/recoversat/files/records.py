"""JSON lines: objects with a "text", and the same objects with a "translation"; one bad line is one error."""

import json
import math
import sys
from dataclasses import dataclass
from typing import Any

TEXT, TRANSLATION, ERROR = "text", "translation", "error"  # names of fields and columns
_CONFIDENCE, _DOUBTFUL = "confidence", "doubtful"
_NAMED = 10  # errors that are told one by one


@dataclass(frozen=True)
class Record:
    """A line of input; `error` says what is wrong with it, where something is."""

    fields: dict[str, Any]
    error: str = ""

    @classmethod
    def parse(cls, raw: bytes) -> "Record":
        """Read a line; an empty one is an object without text, for there is one line out for each line in."""
        try:
            fields = _JSON.decode(raw.decode("utf-8-sig")) if raw.strip() else {TEXT: ""}
        except UnicodeDecodeError as error:
            return cls(_unread(raw), f"not UTF-8 ({error.reason})")
        except json.JSONDecodeError as error:
            return cls(_unread(raw), f"not JSON ({error.msg})")
        except (ValueError, RecursionError) as error:  # a number of thousands of digits or 1e400, thousands of brackets
            return cls(_unread(raw), f"not to be read ({error})")
        if not isinstance(fields, dict) or TEXT not in fields:
            rest = fields if isinstance(fields, dict) else _unread(raw)
            return cls(rest, 'expected an object with a "text", e.g. {"text": "Hello"}')
        if not isinstance(fields[TEXT], str):
            return cls(fields, '"text" is no text')
        if not _is_whole(fields[TEXT]):
            return cls(fields, '"text" holds half a character (a lone surrogate)')
        return cls(fields)

    def tell_error(self, where: str, number: int) -> None:
        """Say on standard error what is wrong with this one, unless enough others were named before."""
        if number <= _NAMED:
            print(f"{where}: {self.error}", file=sys.stderr, flush=True)

    @property
    def text(self) -> str:
        """Return what is to be translated: nothing, where something is wrong."""
        return "" if self.error else str(self.fields[TEXT])

    def answered(self, translation: str, confidence: float | None = None, is_doubtful: bool = False) -> str:
        """Return the line that is written for this one, without what an earlier translation has told."""
        told: dict[str, Any] = {} if confidence is None else {_CONFIDENCE: round(confidence, 4)}
        told |= {_DOUBTFUL: True} if is_doubtful else {}
        stale = {ERROR}
        if TRANSLATION in self.fields or told:  # else what is called so is the user's own
            stale |= {TRANSLATION, _CONFIDENCE, _DOUBTFUL}
        kept = {name: value for name, value in self.fields.items() if name not in stale}
        answer = kept | ({ERROR: self.error} if self.error else {TRANSLATION: translation} | told)
        line = json.dumps(answer, ensure_ascii=False)
        return line if _is_whole(line) else json.dumps(answer)


def _finite(number: str) -> float:
    """Read a number; one that is too large, NaN and Infinity could not be written as JSON."""
    if math.isfinite(value := float(number)):
        return value
    raise ValueError(f"{number} is no number that JSON can hold")


_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def _unread(raw: bytes) -> dict[str, Any]:
    return {"input": raw.decode("utf-8", errors="replace").rstrip("\r\n")}


def _is_whole(text: str) -> bool:
    """Say whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
