"""Join prepared corpora of both directions into one, each with the direction it is good for.

    python recipes/builtin/join.py OUT CORPUS[:forward | :backward]...

A corpus of both directions has each pair twice, forward and then backward. Text that a teacher translated is good in
the direction it was translated in: what a person wrote is the source. Tokenizer and validation text are the first's.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recoversat.data.corpus import Sentences, open_corpus
from recoversat.data.prepare import write_corpus_files
from recoversat.files.storage import atomic_folder
from recoversat.text.tokenizer import vocabulary_fingerprint

_WAYS = {"": slice(None), "forward": slice(0, None, 2), "backward": slice(1, None, 2)}


def chosen(sentences: Sentences, way: str) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return the ids and lengths of the sentences that serve a direction.

    >>> ids, lengths = chosen(Sentences.of([[5, 6], [7], [8], [9, 10, 11]], np.uint16), "backward")
    >>> ids.tolist(), lengths.tolist()
    ([7, 9, 10, 11], [1, 3])
    """
    keep = np.zeros(len(sentences), dtype=bool)
    keep[_WAYS[way]] = True
    return np.asarray(sentences.ids)[np.repeat(keep, sentences.lengths)], sentences.lengths[keep]


def join(out: Path, parts: list[str]) -> None:
    """Write the corpus."""
    names = [part.partition(":") for part in parts]
    corpora = [open_corpus(Path(name)) for name, _, _ in names]
    first = corpora[0]
    for corpus in corpora:
        if vocabulary_fingerprint(corpus.folder) != vocabulary_fingerprint(first.folder):
            raise SystemExit(f"{corpus.folder}: its vocabulary is not that of {first.folder}")
    with atomic_folder(out) as folder:
        first.tokenizer.save(folder)
        for side in ("src", "tgt"):
            taken = [
                chosen(getattr(corpus.train, side), way) for corpus, (_, _, way) in zip(corpora, names, strict=True)
            ]
            offsets = np.concatenate([[0], np.cumsum(np.concatenate([lengths for _, lengths in taken]))])
            Sentences(np.concatenate([ids for ids, _ in taken]), offsets).save(folder, f"train.{side}")
        valid = list(zip(first.valid_src, first.valid_tgt, strict=True))
        write_corpus_files(folder, first.config, valid, {"joined": parts})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", nargs="+")
    given = parser.parse_args()
    join(given.out, given.parts)
