"""Put together what a teacher is to translate, both ways: monolingual text, and sources of the pairs.

    python recipes/builtin/sources.py OUT CORPUS --mono DATA         reads DATA/mono.{en,de}.xz and .origin.xz
    python recipes/builtin/sources.py OUT CORPUS --most 700000       reads the sources of a prepared corpus

OUT is a corpus for `recoversat distill`, with the tokenizer of CORPUS, shuffled, no source twice.
It has no translations yet: the target of each source is the source. `weights.yaml` says how much of which origin.
"""

import argparse
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import yaml
from pairs import HERE, copies, is_prose, opened
from phrases import judged_words, words_of

from recoversat.data.corpus import Corpus, Sentences, open_corpus
from recoversat.data.prepare import write_corpus_files
from recoversat.files.storage import atomic_folder
from recoversat.text.directions import direction_tag

LONGEST = 120  # tokens


def monolingual(data: Path, corpus: Corpus, weights: dict[str, float]) -> Iterator[list[int]]:
    """Yield the sources of monolingual text, by the weights of their origins."""
    judged = judged_words()
    for language, other in corpus.config.directions:
        with opened(data / f"mono.{language}") as text, opened(data / f"mono.{language}.origin") as origins:
            lines = (
                line
                for line, origin in zip(map(str.strip, text), map(str.strip, origins), strict=True)
                if is_prose(line) and copies(line.encode(), min(1, weights.get(origin, 0)))
                if not judged & words_of([(line, line)])
            )
            while block := list(islice(lines, 20_000)):
                yield from corpus.tokenizer.encode(block, direction_tag(other))


def sources_of(corpus: Corpus) -> Iterator[list[int]]:
    """Yield the sources of a corpus."""
    return (corpus.train.src[i].tolist() for i in range(len(corpus.train)))


def distinct(sources: Iterator[list[int]], most: int | None, seed: int = 1) -> list[list[int]]:
    """Return sources that differ, shuffled, at most so many.

    >>> sorted(distinct(iter([[1, 2], [3, 4, 5], [1, 2], [7]]), None))
    [[1, 2], [3, 4, 5]]
    """
    found = list({np.array(ids, np.int32).tobytes(): ids for ids in sources if 2 <= len(ids) <= LONGEST}.values())
    random.Random(seed).shuffle(found)
    return found[:most]


def main() -> None:
    """Write the corpus and say how much there is of each direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--mono", type=Path)
    parser.add_argument("--most", type=int)
    args = parser.parse_args()
    corpus = open_corpus(args.corpus)
    weights = yaml.safe_load((HERE / "weights.yaml").read_text())
    taken = distinct(monolingual(args.mono, corpus, weights) if args.mono else sources_of(corpus), args.most)
    with atomic_folder(args.out) as folder:
        corpus.tokenizer.save(folder)
        Sentences.of(taken, corpus.train.src.ids.dtype).save(folder, "train.src")
        Sentences.of([ids[1:] for ids in taken], corpus.train.src.ids.dtype).save(folder, "train.tgt")
        valid = list(zip(corpus.valid_src, corpus.valid_tgt, strict=True))
        write_corpus_files(folder, corpus.config, valid, {"sources": len(taken)})
    for tag, count in zip(*np.unique([ids[0] for ids in taken], return_counts=True), strict=True):
        print(f"{corpus.tokenizer.pieces([int(tag)])[0]} {count:>10,}")


if __name__ == "__main__":
    main()
