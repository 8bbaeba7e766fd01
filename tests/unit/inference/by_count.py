"""A translator that writes one thing in one segment and another in two."""

from recoversat.config import parse_config
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.translator import Translator
from recoversat.vocab import EOS, SPECIAL_PIECES, UNK
from tests.unit.conftest import ScriptedEngine, ScriptedStepper


class ByCount(ScriptedEngine):
    """An engine that writes something else in one segment than in two."""

    max_segments = 2

    def start(self, sources, n_segments, options=None):
        return ScriptedStepper([self._script(*pair) for pair in zip(sources, n_segments, strict=True)], [])

    def _script(self, ids, k):
        """Know nothing of the numbers that stand in for others."""
        return [[EOS]] * k if UNK in ids else self._scripts[tuple(ids), int(k)]


def writes(scripts: dict[tuple[str, int], list[str]], **decode: object) -> Translator:
    """Make a translator from {(source, K): ["7 EOS", ...]}; it chooses between one and two segments by length."""
    tokenizer = BpeTokenizer([*SPECIAL_PIECES, "7", "8", "no", "number", "!"])

    def ids(text: str) -> list[int]:
        return [EOS if word == "EOS" else tokenizer.encode([word])[0][0] for word in text.split()]

    known = {(tuple(ids(source)), k): list(map(ids, segments)) for (source, k), segments in scripts.items()}
    config = parse_config(
        {
            "data": {"tokenizer": "bpe"},
            "model": {"max_segments": 2},
            "train": {"segments": [1, 2], "delete_tokens": 0.1},
            "decode": {"segment_length": 1, **decode},
        }
    )
    return Translator.of(ByCount(known), tokenizer, config)


NUMBERS = {
    ("no 7 8", 2): ["7 EOS", "7 EOS"],
    ("no 7 8", 1): ["7 8 EOS"],
    ("no 7 7", 2): ["7 EOS", "EOS"],
    ("no 7 7", 1): ["8 EOS"],
    ("no", 1): ["number EOS"],
    ("no 8 8", 2): ["7 EOS", "EOS"],
    ("no 8 8", 1): ["7 EOS"],
    ("no number", 2): ["no EOS", "number EOS"],
}


def numbers(check: bool) -> Translator:
    return writes(NUMBERS, check_numbers=check)
