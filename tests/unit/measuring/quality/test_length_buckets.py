"""BLEU over ranges of source length."""

from dataclasses import replace

import pytest

from recoversat.measuring.quality.length_buckets import bleu_by_length, length_table, source_lengths
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.quality.outputs import SystemOutput, TestSet


def test_edges_belong_to_the_lower_range():
    lines = [" ".join(["word"] * length) for length in (1, 10, 11, 20, 21, 30, 31, 0)]
    buckets = bleu_by_length([SystemOutput("s", "t", lines)], TestSet("t", lines, lines), [10, 20, 30])
    assert [(b.label, b.n_sentences) for b in buckets] == [("1–10", 3), ("11–20", 2), ("21–30", 2), (">30", 1)]


def test_every_sentence_is_in_one_range_and_scored_there(toy, systems):
    buckets = bleu_by_length(systems, toy, [10, 20])
    assert [b.label for b in buckets] == ["1–10", "11–20", ">20"]
    assert sum(b.n_sentences for b in buckets) == len(toy.sources)
    short = [i for i, line in enumerate(toy.sources) if len(line.split()) <= 10]
    expected = corpus_bleu([systems[2].hypotheses[i] for i in short], [toy.references[i] for i in short])
    assert buckets[0].bleu["K=10"] == pytest.approx(expected.value)
    assert buckets[0].n_sentences == len(short)


def test_ranges_without_sentences_are_left_out(toy):
    perfect = SystemOutput("perfect", "toy", toy.references)
    assert [b.label for b in bleu_by_length([perfect], toy, [1, 50, 60])] == ["2–50"]


def test_sub_words_are_counted_where_they_are_known(toy):
    assert source_lengths(toy)[1] == "words"
    known = replace(toy, source_tokens=[[9] * 7] * len(toy.sources))
    assert source_lengths(known) == ([7] * len(toy.sources), "sub-words")


def test_what_long_sentences_lose_is_shown():
    references = [[7, 8], [7, 8, 9, 7]]
    test_set = TestSet("t", ["a b", " ".join("a" * 15)], ["x", "y"], reference_tokens=references)
    whole = SystemOutput("AT", "t", ["x", "y"], tokens=[[7], [7, 8, 9, 9]])
    short = SystemOutput("K16", "t", ["x", "y"], tokens=[[7], [7, 5]])
    table = length_table([whole, short, SystemOutput("file", "t", ["x", "y"])], test_set, "AT")
    assert table is not None
    assert table.rows == [
        ["1–10", "1", "AT", "100.0", "50.0"],
        ["1–10", "1", "K16", "100.0", "50.0"],
        ["11–20", "1", "AT", "100.0", "75.0"],
        ["11–20", "1", "K16", "50.0", "25.0"],
    ]
    assert length_table([whole, short], test_set, None) is None
    assert length_table([whole], replace(test_set, reference_tokens=None), "AT") is None
