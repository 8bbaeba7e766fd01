"""Two text files in, a prepared corpus out: checked, filtered, tokenised, written whole or not at all."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from recoversat.config import DataConfig
from recoversat.data.corpus import FORMAT, MANIFEST, Sentences, corpus_fingerprint
from recoversat.errors import UserError
from recoversat.files.storage import atomic_folder, lines_of, refuse_existing, sweep_partial, write_json
from recoversat.show.progress import progress
from recoversat.text.directions import direction_tag
from recoversat.text.tokenizer import BpeTokenizer, SentencePieceTokenizer, Tokenizer, load_tokenizer

_CHUNK = 20_000


@dataclass(frozen=True)
class TextPairs:
    """Where line-aligned text lies: two files, or one with two tab-separated columns."""

    src: Path
    tgt: Path | None = None  # None: `src` is a TSV

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self._columns() if self.tgt is None else self._aligned(self.tgt)

    def _aligned(self, tgt: Path) -> Iterator[tuple[str, str]]:
        for count, (src_line, tgt_line) in enumerate(zip_longest(lines_of(self.src), lines_of(tgt))):
            if src_line is None or tgt_line is None:
                longer, shorter = (tgt, self.src) if src_line is None else (self.src, tgt)
                raise UserError(f"{longer} has more lines than {shorter} ({count:,}); align them line by line")
            yield src_line, tgt_line

    def _columns(self) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(lines_of(self.src), 1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise UserError(f"{self.src}, line {number}: expected source<TAB>target, found {len(columns)} columns")
            yield columns[0], columns[1]


def text_pairs(src: Path | None, tgt: Path | None, tsv: Path | None = None) -> TextPairs:
    """Read two files, or one with two columns."""
    if tsv and not (src or tgt):
        return TextPairs(tsv)
    if src and tgt and not tsv:
        return TextPairs(src, tgt)
    raise UserError("give either --src and --tgt, or --tsv")


def optional_pairs(src: Path | None, tgt: Path | None, name: str) -> TextPairs | None:
    """Read two files that come together or not at all."""
    if bool(src) != bool(tgt):
        raise UserError(f"give {name}-src and {name}-tgt together")
    return text_pairs(src, tgt) if src and tgt else None


@dataclass
class FilterReport:
    """How many pairs fell to which rule."""

    read: int = 0
    held_out: int = 0
    empty: int = 0
    too_long: int = 0
    bad_ratio: int = 0
    duplicate: int = 0
    kept: int = 0

    def as_text(self) -> str:
        """Show the counts as aligned lines."""
        return "\n".join(f"{rule.replace('_', ' '):>10} {count:>12,}" for rule, count in vars(self).items())


@dataclass
class _PairFilter:
    """Keep or drop a pair, and count why."""

    config: DataConfig
    report: FilterReport = field(default_factory=FilterReport)
    seen: set[bytes] = field(default_factory=set)

    def keeps(self, text: tuple[str, str], n_src: int, n_tgt: int) -> bool:
        rule = self._broken_rule(text, n_src, n_tgt)
        setattr(self.report, rule, getattr(self.report, rule) + 1)
        return rule == "kept"

    def _broken_rule(self, text: tuple[str, str], n_src: int, n_tgt: int) -> str:
        shorter, longer = sorted((n_src, n_tgt))
        if shorter == 0:
            return "empty"
        if longer > self.config.max_tokens:
            return "too_long"
        # five tokens of grace: short pairs differ in length by chance
        if longer + 5 > self.config.max_ratio * (shorter + 5):
            return "bad_ratio"
        if self.config.drop_duplicates:
            key = hashlib.blake2b("\t".join(text).encode(), digest_size=10).digest()
            if key in self.seen:
                return "duplicate"
            self.seen.add(key)
        return "kept"


def prepare(
    pairs: TextPairs,
    out: Path,
    config: DataConfig,
    *,
    valid: TextPairs | None = None,
    hold_out: int = 0,
    tokenizer_from: Path | None = None,
    replace: bool = False,
    quiet: bool = False,
    title: str = "prepare",
) -> FilterReport:
    """Write a prepared corpus folder.

    Validation text comes from its own files, or `hold_out` training pairs spread over the corpus.
    """
    refuse_existing(out, replace)
    out.parent.mkdir(parents=True, exist_ok=True)
    sweep_partial(out.parent, out.name)
    total = sum(1 for _ in pairs)  # also finds unequal lengths and bad bytes before any long work
    if total == 0:
        raise UserError(f"{pairs.src}: the file is empty")
    valid_pairs = [pair for pair in valid if all(side.strip() for side in pair)] if valid else []
    held = _held_out_lines(total, hold_out)
    with atomic_folder(out, replace=replace) as folder:
        tokenizer = load_tokenizer(tokenizer_from) if tokenizer_from else _learn_tokenizer(pairs, total, config, held)
        if missing := set(_tags(config)) - set(tokenizer.tags):
            raise UserError(f"this tokenizer does not know {', '.join(sorted(missing))}; leave --tokenizer-from out")
        tokenizer.save(folder)
        chosen = _PairFilter(config)
        src, tgt = [], []
        with progress(title, total, quiet=quiet) as bar:
            for block in _blocks(pairs, held, valid_pairs, chosen.report):
                for src_ids, tgt_ids in _encode(block, tokenizer, chosen, config):
                    src.append(src_ids)
                    tgt.append(tgt_ids)
                bar.advance(len(block))
        if not src:
            raise UserError(
                f"no pair of {pairs.src} passed the filters: {asdict(chosen.report)}; loosen max_tokens or max_ratio"
            )
        dtype = np.uint16 if tokenizer.size <= 1 << 16 else np.int32
        Sentences.of(src, dtype).save(folder, "train.src")
        Sentences.of(tgt, dtype).save(folder, "train.tgt")
        valid_pairs = [pair for one in valid_pairs for pair in _in_each_direction(one, config)]
        write_corpus_files(folder, config, valid_pairs, {"report": asdict(chosen.report)})
    return chosen.report


def write_corpus_files(
    folder: Path, config: DataConfig, valid_pairs: list[tuple[str, str]], facts: dict[str, object]
) -> None:
    """Write validation text and manifest beside the arrays that are already there."""
    for side, name in enumerate(("valid.src", "valid.tgt")):
        text = "".join(f"{pair[side]}\n" for pair in valid_pairs)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    manifest = {"format": FORMAT, "config": config.model_dump(), "fingerprint": corpus_fingerprint(folder)}
    write_json(folder / MANIFEST, manifest | {"valid": len(valid_pairs)} | facts)


def _held_out_lines(total: int, hold_out: int) -> frozenset[int]:
    if hold_out * 2 > total:
        raise UserError(f"cannot hold out {hold_out} of {total} pairs for validation; ask for fewer")
    return frozenset(int(i) for i in np.linspace(0, total - 1, hold_out)) if hold_out else frozenset()


def _learn_tokenizer(pairs: TextPairs, total: int, config: DataConfig, held: frozenset[int]) -> Tokenizer:
    stride = -(-2 * total // config.tokenizer_sentences)  # every stride-th pair keeps the sample spread out
    sample = (pair for number, pair in enumerate(pairs) if number % stride == 0 and number not in held)
    lines = (side for pair in sample for side in pair if side)
    if config.tokenizer == "bpe":
        return BpeTokenizer.train(lines, config.vocab_size)
    return SentencePieceTokenizer.train(lines, config.vocab_size, 2 * total, _tags(config))


def _tags(config: DataConfig) -> list[str]:
    return [direction_tag(target) for _, target in config.directions] if config.tagged else []


def _in_each_direction(pair: tuple[str, str], config: DataConfig) -> Iterator[tuple[str, str]]:
    """Yield a pair as it is, or tagged and both ways."""
    if not config.both_directions:
        yield pair
        return
    (one, other), (_, forward), (_, backward) = pair, *config.directions
    yield direction_tag(forward) + one, other
    yield direction_tag(backward) + other, one


def _blocks(
    pairs: TextPairs, held: frozenset[int], valid_pairs: list[tuple[str, str]], report: FilterReport
) -> Iterator[list[tuple[str, str]]]:
    """Yield training pairs in blocks; held-out ones go to `valid_pairs` instead."""
    numbered = enumerate(pairs)
    while block := list(islice(numbered, _CHUNK)):
        report.read += len(block)
        aside = {number for number, pair in block if number in held and all(part.strip() for part in pair)}
        valid_pairs.extend(pair for number, pair in block if number in aside)
        report.held_out += len(aside)
        yield [pair for number, pair in block if number not in aside]


def _encode(
    block: list[tuple[str, str]], tokenizer: Tokenizer, chosen: _PairFilter, config: DataConfig
) -> Iterator[tuple[list[int], list[int]]]:
    # text of spaces alone is as empty as no text
    src_ids = tokenizer.encode([src if src.strip() else "" for src, _ in block])
    tgt_ids = tokenizer.encode_targets([tgt if tgt.strip() else "" for _, tgt in block])
    forward, backward = [tokenizer.encode([""], tag)[0] for tag in _tags(config)] or ([], [])
    for text, src, tgt in zip(block, src_ids, tgt_ids, strict=True):
        if chosen.keeps(text, len(src), len(tgt)):
            yield [*forward, *src], tgt
            if backward:
                yield [*backward, *tgt], src
