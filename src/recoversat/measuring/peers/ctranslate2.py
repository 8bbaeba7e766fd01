"""Translate with a CTranslate2 folder that `recoversat export --format ctranslate2` wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recoversat.config import DecodeConfig
from recoversat.errors import UserError
from recoversat.export.ctranslate2_writer import MODEL, NOTES, POSITIONS, import_ctranslate2
from recoversat.files.storage import read_json
from recoversat.text.directions import direction_tag, find_direction
from recoversat.text.tokenizer import load_tokenizer


@dataclass(frozen=True)
class PeerTranslation:
    """A translated sentence: its text and sub-words, and how long the source was."""

    text: str
    ids: list[int]
    source_length: int


def is_ctranslate2(folder: Path) -> bool:
    """Say whether a folder holds a model for CTranslate2."""
    return (folder / MODEL).is_file()


class CTranslate2Translator:
    """Text in, text out; lengths are bounded as in our own greedy decoding."""

    def __init__(
        self, folder: Path, *, device: str = "cpu", compute_type: str = "default", threads: int = 0,
        target: str | None = None,
    ) -> None:  # fmt: skip
        ctranslate2 = import_ctranslate2()
        if not is_ctranslate2(folder):
            raise UserError(f"{folder}: no CTranslate2 model here ({MODEL} is missing)")
        self.tokenizer = load_tokenizer(folder)
        notes = read_json(folder / "config.json", "CTranslate2 model").get(NOTES, {})
        usual = DecodeConfig()
        self._extra_steps = int(notes.get("extra_steps", usual.extra_steps))
        self._length_penalty = float(notes.get("length_penalty", usual.length_penalty))
        self._prefix = _prefix(notes, target, folder)
        self._pieces = self.tokenizer.pieces(range(self.tokenizer.size))
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}
        try:
            self._model = ctranslate2.Translator(
                str(folder), device=device, compute_type=compute_type, intra_threads=threads, inter_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder}: CTranslate2 cannot load it ({error})") from None
        self.version = str(ctranslate2.__version__)
        self.compute_type = str(self._model.compute_type)

    def translate(
        self, texts: Sequence[str], *, batch_size: int = 32, beam: int = 1, length: int | None = None
    ) -> list[PeerTranslation]:
        """Translate single lines; `length` makes every translation exactly so many tokens long."""
        encoded = self.tokenizer.encode(texts, self._prefix)
        sources = [ids if text.strip() else [] for ids, text in zip(encoded, texts, strict=True)]
        results = [PeerTranslation("", [], 0) for _ in sources]
        order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda i: -len(sources[i]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            for i, ids in zip(batch, self.translate_ids([sources[i] for i in batch], beam, length), strict=True):
                text = self.tokenizer.decode(ids).replace("\n", " ").replace("\r", " ")
                results[i] = PeerTranslation(text, ids, len(sources[i]))
        return results

    def translate_ids(
        self, sources: Sequence[Sequence[int]], beam: int = 1, length: int | None = None
    ) -> list[list[int]]:
        """Translate a batch of ids, none empty."""
        limits = [length or min(len(ids) + self._extra_steps, POSITIONS) for ids in sources]
        if (longest := max(map(len, sources))) > POSITIONS:
            raise UserError(f"a sentence of {longest} tokens: this CTranslate2 model reads at most {POSITIONS}")
        found: Any = self._model.translate_batch(
            [[self._pieces[i] for i in ids] for ids in sources],
            beam_size=beam,
            length_penalty=self._length_penalty,
            min_decoding_length=length or 0,
            max_decoding_length=max(limits),
            max_input_length=0,
        )
        return [
            [self._ids[piece] for piece in result.hypotheses[0]][:limit]
            for result, limit in zip(found, limits, strict=True)
        ]


def _prefix(notes: dict[str, Any], target: str | None, folder: Path) -> str:
    """Return the tag that stands before every source of a model of both directions."""
    known = [(one, other) for one, other in notes.get("directions", [])]
    found = find_direction(known, None, target)
    if target and not found:
        there = " and ".join(into for _, into in known)
        raise UserError(f"{folder}: this model does not translate into {target}, but into {there}")
    return direction_tag(found[1]) if found and notes.get("tagged") else ""
