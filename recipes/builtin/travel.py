"""Compress a corpus for the way to another machine, and restore it there.

    python recipes/builtin/travel.py pack CORPUS PACKED
    python recipes/builtin/travel.py unpack PACKED CORPUS

PACKED is a folder of the same files, with train.src.xz and train.tgt.xz instead of the arrays. Of pairs in both
directions it holds one direction alone, of sources that wait for their translation (sources.py) no target. The restored
corpus has the same fingerprint.
"""

import argparse
import lzma
import shutil
from pathlib import Path

import numpy as np
from join import chosen, direction_tags, turned
from numpy.typing import NDArray

from recoversat.data.corpus import Corpus, ParallelSentences, Sentences, corpus_fingerprint, open_corpus
from recoversat.errors import UserError
from recoversat.files.storage import atomic_folder, read_json
from recoversat.text.tokenizer import load_tokenizer

_END = 0  # of a sentence: the id of padding, which no sentence has
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 3, "lp": 1, "pb": 1}]  # ids of two bytes


def ended(sentences: Sentences) -> NDArray[np.uint16]:
    """Return all ids in a row, with a mark at the end of each sentence.

    >>> ended(Sentences.of([[5, 6], [], [7]])).tolist()
    [5, 6, 0, 0, 7, 0]
    """
    ids = np.asarray(sentences.ids, dtype=np.uint16)
    if (ids == _END).any():
        raise UserError("the corpus holds padding; prepare it again")
    return np.insert(ids, sentences.offsets[1:], np.uint16(_END))


def separated(ids: NDArray[np.uint16]) -> Sentences:
    """Return the sentences of `ended`.

    >>> separated(np.array([5, 6, 0, 0, 7, 0], dtype=np.uint16)).offsets.tolist()
    [0, 2, 2, 3]
    """
    ends = np.flatnonzero(ids == _END)
    return Sentences(ids[ids != _END], np.concatenate([[0], ends - np.arange(len(ends))]))


def both_ways(forward: ParallelSentences, tags: tuple[int, int]) -> ParallelSentences:
    """Return each pair forward and then backward, as `prepare` writes them."""
    back, n = turned(forward, tags), len(forward)
    order = np.arange(2 * n).reshape(2, n).T.ravel()
    return ParallelSentences(_after(forward.src, back.src).pick(order), _after(forward.tgt, back.tgt).pick(order))


def _after(one: Sentences, other: Sentences) -> Sentences:
    offsets = np.concatenate([one.offsets, other.offsets[1:] + one.offsets[-1]])
    return Sentences(np.concatenate([one.ids, other.ids]), offsets)


def _same(one: Sentences, other: Sentences) -> bool:
    return bool(np.array_equal(one.offsets, other.offsets) and np.array_equal(one.ids, other.ids))


def needed(corpus: Corpus) -> dict[str, Sentences]:
    """Return what the rest can be restored from: the sources, one direction, or everything."""
    train = corpus.train
    if _same(train.tgt, _untagged(train.src)):
        return {"src": train.src}
    forward = ParallelSentences(chosen(train.src, "forward"), chosen(train.tgt, "forward"))
    restored = both_ways(forward, direction_tags(corpus.tokenizer))
    if not (_same(restored.src, train.src) and _same(restored.tgt, train.tgt)):
        raise UserError(f"{corpus.folder}: neither pairs in both directions nor sources alone; it cannot be packed")
    return {"src": forward.src, "tgt": forward.tgt}


def _untagged(sources: Sentences) -> Sentences:
    keep = np.ones(len(sources.ids), dtype=bool)
    keep[sources.offsets[:-1]] = False
    return Sentences(np.asarray(sources.ids)[keep], sources.offsets - np.arange(len(sources.offsets)))


def pack(folder: Path, packed: Path) -> None:
    """Write the compressed corpus."""
    corpus = open_corpus(folder)
    sides = needed(corpus)
    with atomic_folder(packed) as out:
        for path in folder.iterdir():
            if path.suffix != ".npy":
                shutil.copy(path, out)
        for side, sentences in sides.items():
            with lzma.open(out / f"train.{side}.xz", "wb", filters=_FILTERS) as stream:
                stream.write(ended(sentences).tobytes())


def unpack(packed: Path, folder: Path) -> None:
    """Restore the corpus, and compare it with the fingerprint of the one that was packed."""
    sides = {
        side: separated(np.frombuffer(lzma.decompress((packed / f"train.{side}.xz").read_bytes()), dtype=np.uint16))
        for side in ("src", "tgt")
        if (packed / f"train.{side}.xz").is_file()
    }
    with atomic_folder(folder) as out:
        for path in packed.iterdir():
            if path.suffix != ".xz":
                shutil.copy(path, out)
        train = _restored(sides, out)
        for side, sentences in (("src", train.src), ("tgt", train.tgt)):
            Sentences(sentences.ids.astype(np.uint16), sentences.offsets).save(out, f"train.{side}")
        if corpus_fingerprint(out) != read_json(out / "corpus.json", "prepared corpus")["fingerprint"]:
            raise UserError(f"{packed}: damaged, or not packed by this version; pack the corpus again")


def _restored(sides: dict[str, Sentences], folder: Path) -> ParallelSentences:
    if "tgt" not in sides:
        return ParallelSentences(sides["src"], _untagged(sides["src"]))
    return both_ways(ParallelSentences(sides["src"], sides["tgt"]), direction_tags(load_tokenizer(folder)))


def main() -> None:
    """Pack or unpack one corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["pack", "unpack"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    {"pack": pack, "unpack": unpack}[args.command](args.source, args.out)


if __name__ == "__main__":
    main()
