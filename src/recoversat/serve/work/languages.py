"""Names of languages, and which of those on offer a text is written in."""

import io
import lzma
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

# fmt: off
_NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nb": "Norwegian",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "th": "Thai",
    "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}
# fmt: on


@dataclass(frozen=True)
class Detected:
    """A language a text may be written in; the confidence is in per cent."""

    language: str
    confidence: float


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
    from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    with lzma.open(MODEL_DIR / MODEL_FILE) as packed:
        data = np.load(io.BytesIO(packed.read()), allow_pickle=False)
    moves, rows = (array("HI"[data[name].itemsize // 4], data[name].tobytes()) for name in ("nextmove", "nextmove_row"))
    features = data["ptc"], data["pc"], data["classes"].tolist()
    return LanguageIdentifier(*features, moves, data["out_feat"].tolist(), norm_probs=True, tk_row=rows)


class LanguageDetector:
    """Tell the languages on offer apart with py3langid: 5 MB, numpy only, nothing downloaded."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = list(languages)
        known = {code: code.partition("-")[0].lower() for code in languages}
        self._known = {code: base for code, base in known.items() if base in _identifier().labels}

    def rank(self, text: str) -> list[Detected]:
        """Rank the languages on offer, the likeliest first; always at least one.

        The confidence is that among all languages: French is neither English nor German, and sure of neither.
        """
        if not self._known:
            return [Detected(code, 0.0) for code in self._languages]
        with np.errstate(all="ignore"):
            scores = dict(_identifier().rank(text))
        # Languages the detector has never heard of are left out: nothing can be said of them.
        ranked = sorted(self._known.items(), key=lambda item: -scores[item[1]])
        return [Detected(code, round(100 * float(scores[base]), 1)) for code, base in ranked]
