"""Scores equal to those of the real `sacrebleu` command on the same files, to the last printed digit."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recoversat.measuring.quality.metrics import (
    compare,
    corpus_bleu,
    corpus_chrf,
    score_corpus,
    sentence_chrf,
    tokenised_bleu,
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
    quality = score_corpus(SYSTEM, REFERENCES)
    ours = {score.name: score for score in (quality.bleu, quality.chrf, quality.ter)}
    assert set(ours) == {"BLEU", "chrF2++", "TER"} == {entry["name"] for entry in printed}
    for entry in printed:
        score = ours[entry["name"]]
        assert float(f"{score.value:.{digits}f}") == entry["score"]
        assert score.signature == entry["signature"]


def test_single_metric_functions_agree_with_the_full_set():
    quality = score_corpus(SYSTEM, REFERENCES)
    assert corpus_bleu(SYSTEM, REFERENCES) == quality.bleu
    assert corpus_chrf(SYSTEM, REFERENCES) == quality.chrf


def test_another_tokenizer_is_the_commands_too(tmp_path):
    files = write(tmp_path / "ref", REFERENCES), "-i", write(tmp_path / "sys", SYSTEM)
    printed = sacrebleu(*files, "--tokenize", "zh", "--format", "json", "-w", "8")
    ours = score_corpus(SYSTEM, REFERENCES, tokenize="zh").bleu
    assert (round(ours.value, 8), ours.signature) == (printed["score"], printed["signature"])
    assert "tok:zh" in ours.signature


def test_tokenised_bleu_is_labelled_and_does_not_tokenise(tmp_path):
    references = ["it is , as said , a small house .", "we met at the bridge ."]
    system = ["it is , as said a small house.", "we met at a bridge ."]
    files = write(tmp_path / "ref", references), "-i", write(tmp_path / "sys", system)
    printed = sacrebleu(*files, "--tokenize", "none", "--force", "--format", "json", "-w", "8")
    ours = tokenised_bleu(system, references)
    assert ours.name == "tokenised BLEU"
    assert (round(ours.value, 8), ours.signature) == (printed["score"], printed["signature"])
    assert str(ours).startswith("tokenised BLEU|nrefs:1|")
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
    (compared,) = compare(("base", BASELINE), {"sys": SYSTEM}, REFERENCES, n_samples=300).comparisons.values()
    assert [comparison.metric for comparison in compared] == ["BLEU", "chrF2++", "TER"]
    for comparison, (score, mean, interval, p_value), (base_score, *_) in zip(compared, theirs, baseline, strict=True):
        assert comparison.baseline == "base"
        assert (f"{comparison.mean:.4f}", f"{comparison.interval:.4f}") == (mean, interval)
        assert f"{comparison.p_value:.4f}" == p_value
        assert comparison.difference == pytest.approx(float(score) - float(base_score), abs=1.1e-4)
        assert comparison.signature == signatures[comparison.metric]


def test_each_system_is_compared_with_the_baseline_under_its_own_name():
    compared = compare(("base", BASELINE), {"sys": SYSTEM, "best": REFERENCES}, REFERENCES, n_samples=50).comparisons
    bleu = {name: comparisons[0].difference for name, comparisons in compared.items()}
    assert list(bleu) == ["sys", "best"]
    assert bleu["best"] > bleu["sys"] > 0


def test_sentence_chrf_is_the_commands(tmp_path):
    files = [write(tmp_path / "ref", REFERENCES), "-i", write(tmp_path / "sys", SYSTEM)]
    options = ["-m", "chrf", "--chrf-word-order", "2", "--sentence-level", "--score-only", "-w", "6"]
    printed = run_sacrebleu(*files, *options).split()
    assert [f"{score:.6f}" for score in sentence_chrf(SYSTEM, REFERENCES)] == printed


def test_the_bootstrap_scores_as_score_corpus_does():
    lines = {"base": BASELINE, "sys": SYSTEM}
    qualities = compare(("base", BASELINE), {"sys": SYSTEM}, REFERENCES, n_samples=2).qualities
    assert qualities == {name: score_corpus(lines[name], REFERENCES) for name in lines}
