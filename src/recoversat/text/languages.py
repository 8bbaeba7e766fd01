"""Names of languages, and which of those on offer a text is written in."""

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_TABLE = Path(__file__).with_name("language_names.tsv")
_NAMES = dict(line.split("\t") for line in _TABLE.read_text(encoding="utf-8").splitlines())
_READ = 10_000  # characters that decide
_NO_LANGUAGE = "zxx"  # what py3langid calls numbers, addresses and the like
_CLEAR, _LIKELY, _RULED_OUT = 0.5, 0.05, 0.001  # probabilities among 142 languages
_TIMES = 2.0  # so much likelier than the second on offer


@dataclass(frozen=True)
class Detected:
    """A language a text may be written in; the confidence is in per cent."""

    language: str
    confidence: float


@dataclass(frozen=True)
class Guess:
    """What a text tells of its language: which of those on offer it is, or which other one; neither if too little."""

    language: str | None = None
    other: str | None = None


def language_name(code: str) -> str:
    """Name a language in English; a code we do not know names itself.

    >>> language_name("de"), language_name("zh-Hant"), language_name("src")
    ('German', 'Chinese (Hant)', 'src')
    """
    base, _, variant = code.partition("-")
    name = _NAMES.get(base.lower(), code)
    return f"{name} ({variant})" if variant and name != code else name


@cache
def _identifier() -> Any:
    """Load py3langid's model as its `load_model` does, but in memory: that one unpacks it into a temporary file."""
    import lzma

    from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    with lzma.open(MODEL_DIR / MODEL_FILE) as packed:
        data = np.load(io.BytesIO(packed.read()), allow_pickle=False)
    moves, rows = (array("HI"[data[name].itemsize // 4], data[name].tobytes()) for name in ("nextmove", "nextmove_row"))
    features = data["ptc"], data["pc"], data["classes"].tolist()
    return LanguageIdentifier(*features, moves, data["out_feat"].tolist(), norm_probs=True, tk_row=rows)


def _scores(text: str) -> dict[str, float]:
    with np.errstate(all="ignore"):
        return {code: float(score) for code, score in _identifier().rank(text)}


class LanguageDetector:
    """Tell the languages on offer apart with py3langid: 5 MB, numpy only, nothing downloaded."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = list(languages)
        known = {code: code.partition("-")[0].lower() for code in languages}
        self._known = {code: base for code, base in known.items() if base in _identifier().labels}

    @property
    def knows_any(self) -> bool:
        """Say whether a text can tell anything of the languages on offer."""
        return bool(self._known)

    def rank(self, text: str) -> list[Detected]:
        """Rank the languages on offer, the likeliest first; always at least one.

        The confidence is that among all languages: French is neither English nor German, and sure of neither.
        """
        if not self._known:
            return [Detected(code, 0.0) for code in self._languages]
        scores = _scores(text)
        # Languages the detector has never heard of are left out: nothing can be said of them.
        ranked = sorted(self._known.items(), key=lambda item: -scores[item[1]])
        return [Detected(code, round(100 * scores[base], 1)) for code, base in ranked]

    def guess(self, text: str) -> Guess:
        """Say which of the languages on offer a text is written in, as far as its beginning tells.

        Measured on single lines of Tatoeba, English and German: see docs/translate.md.
        """
        text = text[:_READ]
        if not self._known or not any(map(str.isalpha, text)):
            return Guess()
        scores = _scores(text)
        best = max(scores, key=scores.__getitem__)
        mine = sorted(((scores[base], code) for code, base in self._known.items()), reverse=True)
        (likely, code), second = mine[0], sum(score for score, _ in mine[1:2])
        if likely >= _LIKELY:
            return Guess(code) if likely >= _TIMES * second else Guess()
        is_other = scores[best] >= _CLEAR or likely < _RULED_OUT  # one of several that are alike, as Slavic ones are
        return Guess(other=best) if is_other and best != _NO_LANGUAGE else Guess()
