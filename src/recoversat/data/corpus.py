"""A prepared corpus: ids in memory-mapped arrays, the tokenizer, and the validation text."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import DataConfig
from recoversat.errors import UserError
from recoversat.files.storage import fingerprint, lines_of, read_json
from recoversat.text.tokenizer import FILES, Tokenizer, join_subwords, load_tokenizer

MANIFEST = "corpus.json"
FORMAT = 1


def within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count from 0 within each of so many runs of these lengths, which lie end to end."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


@dataclass(frozen=True)
class Sentences:
    """Ragged ids: sentence i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[Any]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        return np.asarray(self.ids[self.offsets[index] : self.offsets[index + 1]], dtype=np.int64)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def pick(self, chosen: NDArray[np.int64]) -> "Sentences":
        """Return some of the sentences.

        >>> picked = Sentences.of([[7, 8], [9], [10, 11]]).pick(np.array([2, 0]))
        >>> picked.ids.tolist(), picked.offsets.tolist()
        ([10, 11, 7, 8], [0, 2, 4])
        """
        lengths = self.lengths[chosen]
        ids = self.ids[np.repeat(self.offsets[chosen], lengths) + within(lengths)]
        return Sentences(ids.astype(np.int64), np.cumsum([0, *lengths]))

    @classmethod
    def of(cls, sentences: Iterable[list[int]], dtype: Any = np.int32) -> "Sentences":
        """Lay lists of ids end to end."""
        lists = list(sentences)
        offsets = np.cumsum([0, *map(len, lists)])
        return cls(np.fromiter(chain.from_iterable(lists), dtype=dtype, count=int(offsets[-1])), offsets)

    def save(self, folder: Path, name: str) -> None:
        """Write the two arrays; `load` maps them back."""
        np.save(folder / f"{name}.ids.npy", self.ids)
        np.save(folder / f"{name}.offsets.npy", self.offsets)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Sentences":
        """Map the arrays into memory without reading them."""
        try:
            ids = np.load(folder / f"{name}.ids.npy", mmap_mode="r", allow_pickle=False)
            offsets = np.load(folder / f"{name}.offsets.npy", allow_pickle=False)
            if len(offsets) == 0 or offsets[-1] != len(ids):
                raise ValueError(f"{name} is cut off")
        except (FileNotFoundError, ValueError, EOFError) as error:
            raise UserError(f"{folder}: damaged corpus ({error}); run 'recoversat prepare' again") from None
        return cls(ids, offsets)


@dataclass(frozen=True)
class ParallelSentences:
    """Aligned source and target sentences."""

    src: Sentences
    tgt: Sentences

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus folder, opened."""

    folder: Path
    config: DataConfig
    tokenizer: Tokenizer
    train: ParallelSentences
    valid_src: list[str]
    valid_tgt: list[str]
    manifest: dict[str, Any]

    @property
    def valid_references(self) -> list[str]:
        """Return the validation target as translations are written: joined, where the text came in sub-words."""
        return [join_subwords(line) for line in self.valid_tgt] if self.config.tokenizer == "bpe" else self.valid_tgt

    @property
    def fingerprint(self) -> str:
        """Identify the training ids and the tokenizer by content."""
        return str(self.manifest["fingerprint"])


def open_corpus(folder: Path) -> Corpus:
    """Open what `recoversat prepare` (or `distill`) wrote."""
    manifest = read_json(folder / MANIFEST, "prepared corpus")
    if manifest.get("format") != FORMAT:
        found = manifest.get("format")
        raise UserError(f"{folder}: corpus format {found}, this version reads {FORMAT}; prepare it again")
    train = ParallelSentences(Sentences.load(folder, "train.src"), Sentences.load(folder, "train.tgt"))
    if len(train.src) != len(train.tgt):
        raise UserError(f"{folder}: damaged corpus (sides of unequal length); run 'recoversat prepare' again")
    return Corpus(
        folder=folder,
        config=DataConfig.model_validate(manifest["config"]),
        tokenizer=load_tokenizer(folder),
        train=train,
        valid_src=list(lines_of(folder / "valid.src")),
        valid_tgt=list(lines_of(folder / "valid.tgt")),
        manifest=manifest,
    )


def corpus_fingerprint(folder: Path) -> str:
    """Hash the arrays and the tokenizer of a corpus folder."""
    return fingerprint(*sorted(path for pattern in ("*.npy", *FILES) for path in folder.glob(pattern)))
