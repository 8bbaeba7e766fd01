"""Make a shortlist from pairs of sentences: what is frequent in a language, and what each source piece becomes.

B pairs, V vocabulary, T directions.
"""

import numpy as np
from numpy.typing import NDArray

from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.data.lexicon import learn_lexicon
from recoversat.engines.onnx.shortlist import Shortlist
from recoversat.text.tokenizer import Tokenizer
from recoversat.vocab import DEL, EOS

Ints, Bools = NDArray[np.int64], NDArray[np.bool_]

LIKELIEST, FREQUENT = 50, 1000


def make_shortlist(
    pairs: ParallelSentences, tokenizer: Tokenizer, likeliest: int = LIKELIEST, frequent: int = FREQUENT
) -> Shortlist:
    """Learn from pairs whose sources begin with the tag of their direction, where there are several."""
    size = tokenizer.size
    tags = np.array([tokenizer.encode([""], tag)[0][0] for tag in tokenizer.tags], dtype=np.int64)
    firsts = pairs.src.ids[pairs.src.offsets[:-1]].astype(np.int64)
    direction = np.argmax(firsts[:, None] == tags, axis=1) if len(tags) else np.zeros(len(pairs), dtype=np.int64)
    each = np.repeat(direction, pairs.tgt.lengths) * size + pairs.tgt.ids  # every target piece with its direction
    counts = np.bincount(each, minlength=max(1, len(tags)) * size).reshape(-1, size)  # (T, V)
    common = _most_frequent(counts, frequent)
    common[:, [EOS, DEL, *_signs(tokenizer)]] = True
    rare = ParallelSentences(pairs.src, _without(pairs.tgt, common.ravel()[each]))  # the others need no table
    return Shortlist(learn_lexicon(rare, size).likeliest(likeliest, EOS), tags, common)


def _most_frequent(counts: Ints, n: int) -> Bools:
    """Mark the n most frequent pieces of each direction (T, V)."""
    order = np.argsort(-counts, axis=1, kind="stable")
    marked = np.zeros(counts.shape, dtype=np.bool_)
    np.put_along_axis(marked, order[:, :n], True, axis=1)
    return marked & (counts > 0)


def _signs(tokenizer: Tokenizer) -> list[int]:
    """Return the pieces that have no letter: digits and punctuation, whatever the text they were counted in."""
    pieces = enumerate(tokenizer.pieces(range(tokenizer.size)))
    return [i for i, piece in pieces if not any(character.isalpha() for character in piece)]


def _without(sentences: Sentences, gone: Bools) -> Sentences:
    """Return the sentences without the pieces that are marked."""
    kept = np.concatenate([[0], np.cumsum(~gone)])
    return Sentences(sentences.ids[~gone], kept[sentences.offsets])
