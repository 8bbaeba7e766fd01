"""Preparing: what is kept, what is counted, and that nothing half-written is ever found."""

import gzip
import lzma
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recoversat.config import DataConfig, parse_config
from recoversat.data.corpus import open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.errors import UserError
from recoversat.files.storage import atomic_file

CONFIG = DataConfig(vocab_size=300, max_tokens=30, src_lang="en", tgt_lang="de")
PAIRS = [(f"the number {i} is {i * 7}", f"die Zahl {i} ist {i * 7}") for i in range(50)]


def write(folder: Path, pairs: list[tuple[str, str]]) -> TextPairs:
    (folder / "a.en").write_text("".join(f"{src}\n" for src, _ in pairs), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{tgt}\n" for _, tgt in pairs), encoding="utf-8")
    return TextPairs(folder / "a.en", folder / "a.de")


def texts(folder: Path) -> list[tuple[str, str]]:
    corpus = open_corpus(folder)
    decode = corpus.tokenizer.decode
    return [
        (decode(corpus.train.src[i].tolist()), decode(corpus.train.tgt[i].tolist())) for i in range(len(corpus.train))
    ]


def test_text_comes_back_in_order(tmp_path: Path) -> None:
    report = prepare(write(tmp_path, PAIRS), tmp_path / "corpus", CONFIG, quiet=True)
    assert texts(tmp_path / "corpus") == PAIRS
    assert (report.read, report.kept) == (50, 50)


def test_each_rule_is_counted(tmp_path: Path) -> None:
    bad = [("", "leer"), ("empty", "   "), ("7 " * 60, "7 " * 60), ("x", "7 7 7 7 7 7 7 7 7 7 7 7 7"), PAIRS[0]]
    report = prepare(write(tmp_path, PAIRS + bad), tmp_path / "corpus", CONFIG, quiet=True)
    assert (report.empty, report.too_long, report.bad_ratio, report.duplicate) == (2, 1, 1, 1)
    assert report.read == report.kept + 5
    assert texts(tmp_path / "corpus") == PAIRS
    assert "duplicate            1" in report.as_text()


def test_compressed_files_and_tsv_are_the_same(tmp_path: Path) -> None:
    write(tmp_path, PAIRS)
    with gzip.open(tmp_path / "a.en.gz", "wb") as a, lzma.open(tmp_path / "a.de.xz", "wb") as b:
        a.write((tmp_path / "a.en").read_bytes())
        b.write((tmp_path / "a.de").read_bytes())
    (tmp_path / "a.tsv").write_text("".join(f"{src}\t{tgt}\r\n" for src, tgt in PAIRS), encoding="utf-8")
    prepare(TextPairs(tmp_path / "a.en.gz", tmp_path / "a.de.xz"), tmp_path / "packed", CONFIG, quiet=True)
    prepare(TextPairs(tmp_path / "a.tsv"), tmp_path / "columns", CONFIG, quiet=True)
    assert texts(tmp_path / "packed") == texts(tmp_path / "columns") == PAIRS
    assert open_corpus(tmp_path / "packed").fingerprint == open_corpus(tmp_path / "columns").fingerprint


def test_held_out_pairs_are_not_trained_on(tmp_path: Path) -> None:
    report = prepare(write(tmp_path, PAIRS), tmp_path / "corpus", CONFIG, hold_out=5, quiet=True)
    corpus = open_corpus(tmp_path / "corpus")
    held = list(zip(corpus.valid_src, corpus.valid_tgt, strict=True))
    assert report.held_out == 5
    assert sorted(held + texts(tmp_path / "corpus")) == sorted(PAIRS)


def test_a_tokenizer_can_be_reused(tmp_path: Path) -> None:
    prepare(write(tmp_path, PAIRS), tmp_path / "one", CONFIG, quiet=True)
    prepare(write(tmp_path, PAIRS[:9]), tmp_path / "two", CONFIG, tokenizer_from=tmp_path / "one", quiet=True)
    assert (tmp_path / "one/tokenizer.model").read_bytes() == (tmp_path / "two/tokenizer.model").read_bytes()


def test_both_directions_use_every_pair_twice(tmp_path: Path) -> None:
    both = CONFIG.model_copy(update={"both_directions": True})
    report = prepare(write(tmp_path, PAIRS), tmp_path / "corpus", both, hold_out=5, quiet=True)
    corpus = open_corpus(tmp_path / "corpus")
    assert (report.kept, len(corpus.train)) == (45, 90)
    forward, backward = texts(tmp_path / "corpus")[::2], texts(tmp_path / "corpus")[1::2]
    assert [(tgt, src) for src, tgt in backward] == forward
    assert corpus.tokenizer.tags == ["<2de>", "<2en>"]
    assert corpus.tokenizer.pieces([corpus.train.src[0][0], corpus.train.src[1][0]]) == ["<2de>", "<2en>"]
    tags = [corpus.tokenizer.encode([""], tag)[0] for tag in corpus.tokenizer.tags]
    assert not np.isin(corpus.train.tgt.ids, tags).any()
    assert corpus.valid_src[:2] == [f"<2de>{PAIRS[0][0]}", f"<2en>{PAIRS[0][1]}"]
    assert corpus.valid_tgt[:2] == [PAIRS[0][1], PAIRS[0][0]]


def test_text_that_begins_with_a_tag_is_text_in_training_too(tmp_path: Path) -> None:
    both = CONFIG.model_copy(update={"both_directions": True})
    prepare(write(tmp_path, [*PAIRS, ("<2de>the end", "<2en>das Ende")]), tmp_path / "corpus", both, quiet=True)
    assert texts(tmp_path / "corpus")[-2:] == [("<2de>the end", "<2en>das Ende"), ("<2en>das Ende", "<2de>the end")]


def test_both_directions_need_a_tokenizer_that_knows_them(tmp_path: Path) -> None:
    both = CONFIG.model_copy(update={"both_directions": True})
    prepare(write(tmp_path, PAIRS), tmp_path / "one", CONFIG, quiet=True)
    with pytest.raises(UserError, match="does not know <2de>, <2en>"):
        prepare(write(tmp_path, PAIRS), tmp_path / "two", both, tokenizer_from=tmp_path / "one", quiet=True)
    with pytest.raises(UserError, match="both_directions needs two language codes"):
        parse_config({"data": {"both_directions": True, "src_lang": "en", "tgt_lang": "en"}})


def test_mistakes_are_named(tmp_path: Path) -> None:
    pairs = write(tmp_path, PAIRS)
    out = tmp_path / "corpus"
    with pytest.raises(UserError, match=r"nowhere.en: no such file"):
        prepare(TextPairs(tmp_path / "nowhere.en", pairs.tgt), out, CONFIG, quiet=True)
    (tmp_path / "short.de").write_text("eins\nzwei\n")
    with pytest.raises(UserError, match=r"a.en has more lines than .*short.de \(2\)"):
        prepare(TextPairs(pairs.src, tmp_path / "short.de"), out, CONFIG, quiet=True)
    (tmp_path / "latin.de").write_bytes(b"gut\nsch\xf6n\n")
    with pytest.raises(UserError, match=r"latin.de, line 2: not UTF-8"):
        prepare(TextPairs(pairs.src, tmp_path / "latin.de"), out, CONFIG, quiet=True)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-20])
    with pytest.raises(UserError, match=r"cut.gz: damaged .gz"):
        prepare(TextPairs(tmp_path / "cut.gz", pairs.tgt), out, CONFIG, quiet=True)
    (tmp_path / "one.tsv").write_text("a\tb\nlonely\n")
    with pytest.raises(UserError, match=r"one.tsv, line 2: expected source<TAB>target"):
        prepare(TextPairs(tmp_path / "one.tsv"), out, CONFIG, quiet=True)
    (tmp_path / "void").write_text("")
    with pytest.raises(UserError, match="empty"):
        prepare(TextPairs(tmp_path / "void", tmp_path / "void"), out, CONFIG, quiet=True)
    assert not out.exists()
    prepare(pairs, out, CONFIG, quiet=True)
    with pytest.raises(UserError, match="exists already"):
        prepare(pairs, out, CONFIG, quiet=True)


def test_a_damaged_corpus_is_refused(tmp_path: Path) -> None:
    prepare(write(tmp_path, PAIRS), tmp_path / "corpus", CONFIG, quiet=True)
    ids = tmp_path / "corpus/train.tgt.ids.npy"
    ids.write_bytes(ids.read_bytes()[:-50])
    with pytest.raises(UserError, match="damaged corpus"):
        open_corpus(tmp_path / "corpus")
    with pytest.raises(UserError, match="not a prepared corpus"):
        open_corpus(tmp_path)


def test_killed_while_writing_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    many = [(f"{src} {i}", f"{tgt} {i}") for i in range(4000) for src, tgt in PAIRS[:10]]
    write(tmp_path, many)
    command = [sys.executable, "-m", "recoversat", "prepare", "--src", "a.en", "--tgt", "a.de", "--out", "corpus"]
    process = subprocess.Popen([*command, "--set", "data.vocab_size=300"], cwd=tmp_path, stderr=subprocess.PIPE)
    while process.poll() is None and not list(tmp_path.glob(".corpus*.partial/tokenizer.model")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "corpus").exists()
    assert list(tmp_path.glob(".corpus*.partial"))
    subprocess.run([*command, "--set", "data.vocab_size=300"], cwd=tmp_path, check=True, capture_output=True)
    assert len(open_corpus(tmp_path / "corpus").train) == len(set(many))
    assert not list(tmp_path.glob(".corpus*"))  # and the leftovers are swept away


def test_what_others_are_writing_beside_the_corpus_is_left_alone(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "test.de") as scratch:
        scratch.write_text("a line\n")
        prepare(write(tmp_path, PAIRS), tmp_path / "corpus", CONFIG, quiet=True)
    assert (tmp_path / "test.de").read_text() == "a line\n"


def test_validation_pairs_of_blanks_are_no_pairs(tmp_path: Path) -> None:
    (tmp_path / "valid").mkdir()
    valid = write(tmp_path / "valid", [PAIRS[0], ("  ", "die Zahl"), ("the number", " ")])
    prepare(write(tmp_path, PAIRS), tmp_path / "corpus", CONFIG, valid=valid, quiet=True)
    assert open_corpus(tmp_path / "corpus").valid_src == [PAIRS[0][0]]


def test_validation_references_read_as_translations_do(tmp_path: Path) -> None:
    split = [("a@@ b c", "x@@ y z")] * 3
    config = DataConfig(tokenizer="bpe", vocab_size=20)
    prepare(write(tmp_path, split), tmp_path / "split", config, hold_out=1, quiet=True)
    prepare(write(tmp_path, PAIRS), tmp_path / "whole", CONFIG, hold_out=1, quiet=True)
    assert open_corpus(tmp_path / "split").valid_references == ["xy z"]
    whole = open_corpus(tmp_path / "whole")
    assert whole.valid_references == whole.valid_tgt
