"""Scores equal to those of the real `sacrebleu` command on the same files, to the last printed digit."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recoversat.measuring.quality.metrics import (
    METRICS,
    chosen_metrics,
    corpus_bleu,
    corpus_score,
    score_systems,
    sentence_chrf,
)

REFERENCES = [
    "The cat sat on the mat, didn't it?",
    "It costs 1,500 euros – “cheap”, he said.",
    "Über den Fluss führt eine alte Brücke.",
    "We met her at 5 p.m. near the station.",
    "Short.",
    "他们在桥上见面。",
]
SYSTEM = [
    "The cat sat on a mat, did it not?  ",  # trailing blanks, which the command ignores
    "It costs 1,500 euros – “cheap” he he said.",
    "Über den Fluss führt die alte Brücke.",
    "",
    "Short.",
    "他们在桥上见。",
]
BASELINE = [
    "A cat is sitting on the mat, isn't it?",
    "The price is 1,500 euros.",
    "Eine alte Brücke führt über Fluss.",
    "We met at 5 p.m. near station station.",
    "It is short.",
    "他们见面。",
]
ALL = ["-m", "bleu", "chrf", "ter", "--chrf-word-order", "2", "--format", "json"]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def run_sacrebleu(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("sacrebleu")), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sacrebleu(*arguments: str):
    return json.loads(run_sacrebleu(*arguments))


@pytest.mark.parametrize("digits", [1, 8])
def test_scores_and_signatures_are_the_commands(tmp_path, digits):
    printed = sacrebleu(
        write(tmp_path / "ref", REFERENCES), "-i", write(tmp_path / "sys", SYSTEM), *ALL, "-w", str(digits)
    )
    ours = {METRICS[key].name: corpus_score(key, SYSTEM, REFERENCES) for key in chosen_metrics([])}
    assert set(ours) == {"BLEU", "chrF2++", "TER"} == {entry["name"] for entry in printed}
    for entry in printed:
        score = ours[entry["name"]]
        assert float(f"{score.value:.{digits}f}") == entry["score"]
        assert score.signature == entry["signature"]


def test_another_tokenizer_is_the_commands_too(tmp_path):
    files = write(tmp_path / "ref", REFERENCES), "-i", write(tmp_path / "sys", SYSTEM)
    printed = sacrebleu(*files, "--tokenize", "zh", "--format", "json", "-w", "8")
    ours = corpus_score("bleu", SYSTEM, REFERENCES, tokenize="zh")
    assert (round(ours.value, 8), ours.signature) == (printed["score"], printed["signature"])
    assert "tok:zh" in ours.signature


def test_tokenised_bleu_is_labelled_and_does_not_tokenise(tmp_path):
    references = ["it is , as said , a small house .", "we met at the bridge ."]
    system = ["it is , as said a small house.", "we met at a bridge ."]
    files = write(tmp_path / "ref", references), "-i", write(tmp_path / "sys", system)
    printed = sacrebleu(*files, "--tokenize", "none", "--force", "--format", "json", "-w", "8")
    ours = corpus_score("tokenised_bleu", system, references)
    assert ours.name == "tokenised BLEU"
    assert (round(ours.value, 8), ours.signature) == (printed["score"], printed["signature"])
    assert ours.value != corpus_bleu(system, references).value


def test_the_paired_bootstrap_is_the_commands(tmp_path):
    named = (("ref", REFERENCES), ("base", BASELINE), ("sys", SYSTEM))
    ref, base, system = (write(tmp_path / name, lines) for name, lines in named)
    options = ["--paired-bs", "--paired-bs-n", "300", "-w", "4", "--no-color", "--quiet"]
    # Not as JSON: sacreBLEU 2.6.0 crashes when it prints a paired TER that way.
    printed = run_sacrebleu(ref, "-i", base, system, *ALL[:-2], "--format", "latex", *options)
    cell = r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)(?: \(p = ([\d.]+))?"
    baseline, theirs = (re.findall(cell, line) for line in printed.splitlines() if re.search(cell, line))
    signatures = dict(re.findall(r"^ - (BLEU|chrF2\+\+|TER)\s+(\S+)$", printed, flags=re.MULTILINE))
    both = {"sys": SYSTEM, "base": BASELINE}
    compared = [
        score_systems(key, both, REFERENCES, baseline="base", n_samples=300)[1]["sys"] for key in chosen_metrics([])
    ]
    assert [comparison.metric for comparison in compared] == ["BLEU", "chrF2++", "TER"]
    for comparison, (score, mean, interval, p_value), (base_score, *_) in zip(compared, theirs, baseline, strict=True):
        assert comparison.baseline == "base"
        assert (f"{comparison.mean:.4f}", f"{comparison.interval:.4f}") == (mean, interval)
        assert f"{comparison.p_value:.4f}" == p_value
        assert comparison.difference == pytest.approx(float(score) - float(base_score), abs=1.1e-4)
        assert comparison.signature == signatures[comparison.metric]


def test_each_system_is_compared_with_the_baseline_under_its_own_name():
    systems = {"sys": SYSTEM, "base": BASELINE, "best": REFERENCES}
    _, compared = score_systems("bleu", systems, REFERENCES, baseline="base", n_samples=50)
    assert list(compared) == ["sys", "best"]
    assert compared["best"].difference > compared["sys"].difference > 0


def test_sentence_chrf_is_the_commands(tmp_path):
    files = [write(tmp_path / "ref", REFERENCES), "-i", write(tmp_path / "sys", SYSTEM)]
    options = ["-m", "chrf", "--chrf-word-order", "2", "--sentence-level", "--score-only", "-w", "6"]
    printed = run_sacrebleu(*files, *options).split()
    assert [f"{score:.6f}" for score in sentence_chrf(SYSTEM, REFERENCES)] == printed


@pytest.mark.parametrize("key", METRICS)
def test_scores_are_the_same_with_and_without_a_baseline(key):
    lines = {"sys": SYSTEM, "base": BASELINE}
    plain, none = score_systems(key, lines, REFERENCES)
    tested, _ = score_systems(key, lines, REFERENCES, baseline="base", n_samples=2)
    assert plain == tested == {name: corpus_score(key, lines[name], REFERENCES) for name in lines}
    assert none == {}


def test_the_length_ratio_counts_words_written_for_a_hundred_of_the_references():
    score = corpus_score("length_ratio", ["a b c", "a b ."], ["a b c d", "a b c d"])
    assert (score.name, score.value) == ("length ratio", 75.0)
    assert "tok:13a" in score.signature
    longer = {"base": ["a b"] * 4, "sys": ["a b c"] * 4}
    _, compared = score_systems("length_ratio", longer, ["a b"] * 4, baseline="base", n_samples=10)
    assert (compared["sys"].metric, compared["sys"].difference) == ("length ratio", 50.0)
