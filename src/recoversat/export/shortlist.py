"""Give an exported model a shortlist, made from pairs of sentences; needs numpy, not torch.

The table holds what is frequent in each language, and what each source piece becomes (`data/lexicon.py`).
V vocabulary, T directions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recoversat.config import DataConfig
from recoversat.data.corpus import Corpus, ParallelSentences, Sentences, open_corpus
from recoversat.data.lexicon import learn_lexicon
from recoversat.data.prepare import TextPairs
from recoversat.engines.engine import Options
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.errors import UserError
from recoversat.files.int8 import INT8
from recoversat.files.model_folder import read_config, resolve_model
from recoversat.files.storage import atomic_file
from recoversat.text.directions import prefix_of
from recoversat.text.tokenizer import Tokenizer, load_tokenizer, vocabulary_fingerprint
from recoversat.translator import Translator
from recoversat.vocab import DEL, EOS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LIKELIEST, FREQUENT = 100, 1000  # chosen by what they change (docs/log.md, "Shortlists")
_UBIQUITOUS = 100  # one source piece in so many is left out: commas and the like, beside which any piece may stand
_SAMPLE = 200  # sources that are translated with and without
_LINES = 1_000_000  # at most so many are read
_CHUNK = 20_000


@dataclass(frozen=True)
class ShortlistReport:
    pairs: int
    bytes: int
    mean_size: float  # pieces of a sentence's list
    vocabulary: int
    sentences: int  # sources of the pairs that were translated
    same: int

    def as_text(self) -> str:
        return (
            f"shortlist: {self.mean_size:.0f} of {self.vocabulary:,} pieces a sentence, from {self.pairs:,} pairs,"
            f" {self.bytes / 1e6:.1f} MB; {self.same} of {self.sentences} translations hold nothing else"
        )


def add_shortlist(
    folder: Path, pairs: ParallelSentences, likeliest: int = LIKELIEST, frequent: int = FREQUENT
) -> ShortlistReport:
    """Write the table of an int8 model, which the engine in C++ uses."""
    check_has_steps(folder)
    if not (folder / INT8).is_file():
        raise UserError(f"{folder}: a shortlist is for int8 models ({INT8} is missing); run 'recoversat export'")
    table = make_shortlist(pairs, load_tokenizer(folder), likeliest, frequent)
    with atomic_file(folder / TABLE) as scratch:
        table.save(scratch)
    return _counted(folder, pairs, table)


def check_has_steps(model: Path) -> None:
    """Refuse a model whose steps could not choose from a list."""
    config = read_config(resolve_model(model))[0].model
    if not config.stepwise:
        raise UserError(
            f"{model}: a {config.kind!r} model has no shortlist; only models that write step by step have one"
        )


def corpus_of(model: Path, corpus: Path) -> Corpus:
    """Open the corpus of a model."""
    if vocabulary_fingerprint(resolve_model(model)) != vocabulary_fingerprint(corpus):
        raise UserError(f"{model} and {corpus} have different vocabularies; give the corpus it was trained on")
    return open_corpus(corpus)


def pairs_of(model: Path, corpus: Path | None, text: TextPairs | None) -> ParallelSentences:
    """Read the pairs of a corpus, or of text, as ids of the model."""
    folder = resolve_model(model)
    if bool(corpus) == bool(text):
        raise UserError("a shortlist is made from pairs: give either --corpus, or --src and --tgt")
    if corpus:
        pairs = corpus_of(model, corpus).train
    else:
        config, _ = read_config(folder)
        pairs = _encoded(islice(iter(text or ()), _LINES), load_tokenizer(folder), config.data)
    if not len(pairs):
        raise UserError("a shortlist is made from pairs of sentences, and there are none")
    return pairs


def make_shortlist(pairs: ParallelSentences, tokenizer: Tokenizer, likeliest: int, frequent: int) -> Shortlist:
    """Learn from pairs whose sources begin with the tag of their direction, where there are several."""
    size = tokenizer.size
    tags = np.array([tokenizer.encode([""], tag)[0][0] for tag in tokenizer.tags], dtype=np.int64)
    firsts = np.asarray(pairs.src.ids[pairs.src.offsets[:-1]], dtype=np.int64)
    direction = np.argmax(firsts[:, None] == tags, axis=1) if len(tags) else np.zeros(len(pairs), dtype=np.int64)
    each = np.repeat(direction, pairs.tgt.lengths) * size + pairs.tgt.ids  # every target piece with its direction
    counts = np.bincount(each, minlength=max(1, len(tags)) * size).reshape(-1, size)  # (T, V)
    common = _most_frequent(counts, frequent)
    common[:, [EOS, DEL, *_signs(tokenizer)]] = True
    # what is common on either side needs no table, and most links are its
    ubiquitous = _most_frequent(np.bincount(pairs.src.ids, minlength=size)[None], size // _UBIQUITOUS)[0]
    ubiquitous[tags] = True
    rare = ParallelSentences(_without(pairs.src, ubiquitous[pairs.src.ids]), _without(pairs.tgt, common.ravel()[each]))
    return Shortlist(learn_lexicon(rare, size).likeliest(likeliest, EOS), tags, common)


def _encoded(text: Iterable[tuple[str, str]], tokenizer: Tokenizer, data: DataConfig) -> ParallelSentences:
    """Turn pairs of lines into ids, in both directions where the model has both; too long ones are left out."""
    lines = iter(text)
    sources: list[list[int]] = []
    targets: list[list[int]] = []
    tags = [tokenizer.encode([""], prefix_of(data, into))[0] for _, into in data.directions]
    while chunk := list(islice(lines, _CHUNK)):
        sources_of, targets_of = ([pair[side] for pair in chunk] for side in (0, 1))
        for one, other in zip(tokenizer.encode(sources_of), tokenizer.encode_targets(targets_of), strict=True):
            if not 0 < min(len(one), len(other)) <= max(len(one), len(other)) <= data.max_tokens:
                continue
            for tag, src, tgt in zip(tags, (one, other), (other, one), strict=False):
                sources.append([*tag, *src])
                targets.append(tgt)
    return ParallelSentences(Sentences.of(sources), Sentences.of(targets))


def _most_frequent(counts: Ints, n: int) -> Bools:
    """Mark the n most frequent pieces of each direction (T, V)."""
    order = np.argsort(-counts, axis=1, kind="stable")
    marked = np.zeros(counts.shape, dtype=np.bool_)
    np.put_along_axis(marked, order[:, :n], True, axis=1)
    return np.asarray(marked & (counts > 0))


def _signs(tokenizer: Tokenizer) -> list[int]:
    """Return the pieces that have no letter: digits and punctuation, whatever the text they were counted in."""
    pieces = enumerate(tokenizer.pieces(range(tokenizer.size)))
    return [i for i, piece in pieces if not any(character.isalpha() for character in piece)]


def _without(sentences: Sentences, gone: Bools) -> Sentences:
    kept = np.concatenate([[0], np.cumsum(~gone)])
    return Sentences(sentences.ids[~gone], kept[sentences.offsets])


def _counted(folder: Path, pairs: ParallelSentences, table: Shortlist) -> ShortlistReport:
    """Translate some of the sources from the whole vocabulary; count those that lists alone would have sufficed for."""
    chosen = np.random.default_rng(2).permutation(len(pairs))[:_SAMPLE]
    sources = [pairs.src[int(i)].tolist() for i in chosen]
    translator = Translator(folder, device="cpu")
    counts = translator.segment_counts(None, [len(source) for source in sources])
    written = translator.engine.decode(sources, counts, Options(scores=False, shortlist=False))
    members = table.members(sources)
    size = float(members.sum(axis=1).mean())
    members |= table.is_too_long(members)[:, None]
    pieces = [[token for segment in one.segments for token in segment] for one in written]
    same = sum(bool(own[tokens].all()) for own, tokens in zip(members, pieces, strict=True))
    file = (folder / TABLE).stat().st_size
    return ShortlistReport(len(pairs), file, size, len(table.likeliest), len(sources), same)
