"""Join prepared corpora of both directions into one, each with the direction it is good for.

    python recipes/builtin/join.py OUT CORPUS[:forward | :backward | :turned | :N]...

forward, backward: every other pair, of a corpus as `prepare` writes it, each pair forward and then backward.
turned: source and target change places. Text that a teacher translated is good in the direction it was translated in
for a student, and turned (back-translation) for a teacher: what a person wrote is the target then.
N: every Nth pair; odd, if both directions of pairs are to be there.
Tokenizer and validation text are the first's.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recoversat.data.corpus import ParallelSentences, Sentences, open_corpus
from recoversat.data.prepare import write_corpus_files
from recoversat.files.storage import atomic_folder
from recoversat.text.tokenizer import Tokenizer, vocabulary_fingerprint

_EVERY = {"": slice(None), "forward": slice(0, None, 2), "backward": slice(1, None, 2)}


def chosen(sentences: Sentences, way: str) -> Sentences:
    """Return the sentences that serve a direction, or every Nth.

    >>> one = chosen(Sentences.of([[5, 6], [7], [8], [9, 10, 11]], np.uint16), "backward")
    >>> one.ids.tolist(), one.lengths.tolist()
    ([7, 9, 10, 11], [1, 3])
    >>> chosen(Sentences.of([[5, 6], [7], [8], [9, 10, 11]]), "3").ids.tolist()
    [5, 6, 9, 10, 11]
    """
    keep = np.zeros(len(sentences), dtype=bool)
    keep[slice(None, None, int(way)) if way.isdigit() else _EVERY[way]] = True
    lengths = sentences.lengths
    return Sentences(np.asarray(sentences.ids)[np.repeat(keep, lengths)], _offsets(lengths[keep]))


def turned(pairs: ParallelSentences, tags: tuple[int, int]) -> ParallelSentences:
    """Let source and target change places; the tag before the source becomes that of the other direction.

    >>> pairs = ParallelSentences(Sentences.of([[3, 7, 8], [4, 9]]), Sentences.of([[5], [6, 6]]))
    >>> back = turned(pairs, (3, 4))
    >>> [back.src[i].tolist() for i in (0, 1)], [back.tgt[i].tolist() for i in (0, 1)]
    ([[4, 5], [3, 6, 6]], [[7, 8], [9]])
    """
    one, other = tags
    source, target = np.asarray(pairs.src.ids), np.asarray(pairs.tgt.ids)
    firsts = pairs.src.offsets[:-1]
    if not np.isin(source[firsts], tags).all():
        raise SystemExit("a source without the tag of a direction cannot be turned")
    begins = pairs.tgt.offsets[:-1]
    src = np.insert(target, begins, np.where(source[firsts] == one, other, one).astype(target.dtype))
    return ParallelSentences(
        Sentences(src, _offsets(pairs.tgt.lengths + 1)),
        Sentences(np.delete(source, firsts), _offsets(pairs.src.lengths - 1)),
    )


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


def direction_tags(tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the ids of the tags of both directions."""
    one, other = (ids[0] for tag in tokenizer.tags for ids in tokenizer.encode([""], tag))
    return one, other


def part_of(name: str) -> ParallelSentences:
    """Return the pairs of CORPUS[:WAY]."""
    folder, _, way = name.partition(":")
    corpus = open_corpus(Path(folder))
    if way == "turned":
        return turned(corpus.train, direction_tags(corpus.tokenizer))
    return ParallelSentences(chosen(corpus.train.src, way), chosen(corpus.train.tgt, way))


def join(out: Path, parts: list[str]) -> None:
    """Write the corpus."""
    folders = [Path(part.partition(":")[0]) for part in parts]
    first = open_corpus(folders[0])
    for other in folders:
        if vocabulary_fingerprint(other) != vocabulary_fingerprint(first.folder):
            raise SystemExit(f"{other}: its vocabulary is not that of {first.folder}")
    pairs = [part_of(part) for part in parts]
    with atomic_folder(out) as folder:
        first.tokenizer.save(folder)
        for side in ("src", "tgt"):
            taken: list[Sentences] = [getattr(pair, side) for pair in pairs]
            ids = np.concatenate([one.ids for one in taken]).astype(first.train.src.ids.dtype)
            Sentences(ids, _offsets(np.concatenate([one.lengths for one in taken]))).save(folder, f"train.{side}")
        valid = list(zip(first.valid_src, first.valid_tgt, strict=True))
        write_corpus_files(folder, first.config, valid, {"joined": parts})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", nargs="+")
    given = parser.parse_args()
    join(given.out, given.parts)
