"""CTranslate2, with a folder that `recoversat export --format ctranslate2` wrote."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recoversat.config import Config, DecodeConfig
from recoversat.errors import UserError
from recoversat.export.ctranslate2_writer import MODEL, NOTES, POSITIONS, import_ctranslate2, write_ctranslate2
from recoversat.files.storage import read_json
from recoversat.measuring.peers.marian import SHORTLIST
from recoversat.measuring.specs import SystemSpec
from recoversat.measuring.system import JSON, Done, Peer, PeerTranslation, Weights, nothing_done
from recoversat.text.directions import direction_tag, find_direction
from recoversat.text.tokenizer import Tokenizer, load_tokenizer, vocabulary_fingerprint
from recoversat.vocab import N_SPECIAL

# what `bench --untrained` writes and what it computes in: on a GPU (False), on a CPU (True)
_VMAP = "vmap.txt"  # what the words of a source may become: CTranslate2's vocabulary map
_UNTRAINED = {False: {"int8": "int8_float16", "fp32": "float16"}, True: {"int8": "int8", "fp32": "float32"}}


class CTranslate2(Peer):
    """Text in, text out; lengths are bounded as in our own greedy decoding."""

    title, package, marker = "CTranslate2", "ctranslate2", MODEL

    def __init__(self, spec: SystemSpec, device: str = "cpu", threads: int = 0) -> None:
        super().__init__(spec, device, threads)
        ctranslate2 = import_ctranslate2()
        self._tokenizer = load_tokenizer(self.folder)
        notes = read_json(self.folder / "config.json", "CTranslate2 model").get(NOTES, {})
        usual = DecodeConfig()
        self._extra_steps = int(notes.get("extra_steps", usual.extra_steps))
        self._length_penalty = float(notes.get("length_penalty", usual.length_penalty))
        self._prefix = _prefix(notes, spec.target, self.folder)
        self._pieces = self._tokenizer.pieces(range(self._tokenizer.size))
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}
        self._beam, self._mapped = spec.beam, (self.folder / _VMAP).is_file()
        try:
            self._model = ctranslate2.Translator(
                spec.path, device=device, compute_type=spec.compute.split()[0], intra_threads=threads, inter_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{self.folder}: CTranslate2 cannot load it ({error})") from None
        self.facts = {
            "family": self.package, "engine": f"ctranslate2 {ctranslate2.__version__}", "segments": 1,
            "precision": str(self._model.compute_type), "device": device, "threads": threads, "beam": spec.beam,
            "bytes": (self.folder / MODEL).stat().st_size,
        }  # fmt: skip

    @classmethod
    def write_untrained(
        cls, folder: Path, weights: Weights, config: Config, tokenizer: Tokenizer, device: str
    ) -> Iterator[tuple[Path, str]]:
        for precision, compute in _UNTRAINED[device == "cpu"].items():
            path = folder / f"ctranslate2-{precision}"
            if not cls.missing():
                path.mkdir()
                write_ctranslate2(weights, config, tokenizer.pieces(range(tokenizer.size)), path, precision)
                tokenizer.save(path)
            yield path, compute
            if compute == "int8":
                if not cls.missing():
                    _write_map(path, path := folder / "ctranslate2-vmap", tokenizer)
                yield path, f"{compute} vmap"

    def settings(self) -> dict[str, JSON]:
        """Add the vocabulary, which is ours: its sub-words are counted as they are."""
        return super().settings() | {"vocabulary": vocabulary_fingerprint(self.folder), "prefix": self._prefix or None}

    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._tokenizer.encode(texts)]

    def translate(
        self, texts: Sequence[str], batch_size: int, length: int | None = None, done: Done = nothing_done
    ) -> list[PeerTranslation]:
        encoded = self._tokenizer.encode(texts, self._prefix)
        sources = [ids if text.strip() else [] for ids, text in zip(encoded, texts, strict=True)]
        results = [PeerTranslation("", []) for _ in sources]
        order = sorted((i for i, ids in enumerate(sources) if ids), key=lambda i: -len(sources[i]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            for i, ids in zip(batch, self.translate_ids([sources[i] for i in batch], length), strict=True):
                text = self._tokenizer.decode(ids).replace("\n", " ").replace("\r", " ")
                results[i] = PeerTranslation(text, ids)
            done(len(batch))
        done(len(sources) - len(order))
        return results

    def translate_ids(self, sources: Sequence[Sequence[int]], length: int | None = None) -> list[list[int]]:
        """Translate a batch of ids, none empty."""
        limits = [length or min(len(ids) + self._extra_steps, POSITIONS) for ids in sources]
        if (longest := max(map(len, sources))) > POSITIONS:
            raise UserError(f"a sentence of {longest} tokens: this CTranslate2 model reads at most {POSITIONS}")
        found: Any = self._model.translate_batch(
            [[self._pieces[i] for i in ids] for ids in sources],
            beam_size=self._beam,
            length_penalty=self._length_penalty,
            min_decoding_length=length or 0,
            max_decoding_length=max(limits),
            max_input_length=0,
            use_vmap=self._mapped,
        )
        return [
            [self._ids[piece] for piece in result.hypotheses[0]][:limit]
            for result, limit in zip(found, limits, strict=True)
        ]


def _write_map(model: Path, out: Path, tokenizer: Tokenizer) -> None:
    """Give a model a map of made-up words, as many as Marian's and our own lists have."""
    shutil.copytree(model, out)
    words, (frequent, likeliest), rng = tokenizer.pieces(range(tokenizer.size)), SHORTLIST, np.random.default_rng(1)
    with open(out / _VMAP, "w", encoding="utf-8") as stream:
        for word, n in [("", frequent), *((word, likeliest) for word in words[N_SPECIAL:])]:
            drawn = rng.integers(N_SPECIAL, len(words), n)
            stream.write(f"{word}\t{' '.join(words[i] for i in drawn)}\n")


def _prefix(notes: dict[str, Any], target: str | None, folder: Path) -> str:
    """Return the tag that stands before every source of a model of both directions."""
    known = [(one, other) for one, other in notes.get("directions", [])]
    found = find_direction(known, None, target)
    if target and not found:
        there = " and ".join(into for _, into in known)
        raise UserError(f"{folder}: this model does not translate into {target}, but into {there}")
    return direction_tag(found[1]) if found and notes.get("tagged") else ""
