"""sacreBLEU's BLEU, chrF2++ and TER with their signatures, and its paired bootstrap.

Every score here is what the `sacrebleu` command prints for the same lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from recoversat.errors import UserError

TOKENISED_BLEU = "tokenised BLEU"


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature without which it means nothing."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name}|{self.signature} = {self.value:.2f}"


@dataclass(frozen=True)
class Quality:
    """The three scores of one output; the fourth only when it was asked for."""

    bleu: Score
    chrf: Score
    ter: Score
    tokenised_bleu: Score | None = None


@dataclass(frozen=True)
class Comparison:
    """One metric of one system against the baseline, by paired bootstrap resampling.

    As sacreBLEU computes it, a difference of exactly zero has the smallest p_value possible: read both.
    """

    baseline: str
    metric: str
    difference: float  # system minus baseline
    p_value: float
    mean: float  # over the resamples, with half the width of its 95 % interval
    interval: float
    signature: str


@dataclass(frozen=True)
class Compared:
    """What the bootstrap tells of several systems, by their names; the baseline has a quality only."""

    qualities: dict[str, Quality]
    comparisons: dict[str, list[Comparison]]


def score_corpus(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str | None = None) -> Quality:
    """Score detokenised text; `tokenize` is sacreBLEU's for languages without blanks ('zh', 'ja-mecab').

    >>> quality = score_corpus(["a small house on the hill"], ["a small house on the hill"])
    >>> round(quality.bleu.value, 2), round(quality.ter.value, 2)
    (100.0, 0.0)
    """
    metrics = _metrics(references, tokenize)
    bleu, chrf, ter = (_score(metric, hypotheses) for metric in metrics.values())
    return Quality(bleu, chrf, ter)


def check_tokenizer(tokenize: str | None) -> None:
    """Refuse a tokenizer sacreBLEU does not have, or cannot run here, before anything is translated."""
    try:
        BLEU(tokenize=tokenize)
    except KeyError:
        raise UserError(f"--tokenize {tokenize}: sacreBLEU has no such tokenizer; see sacrebleu --help") from None
    except (RuntimeError, ImportError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"--tokenize {tokenize}: {first}") from None


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str | None = None) -> Score:
    """Score detokenised text with BLEU alone.

    >>> corpus_bleu(["a small house on a hill"], ["a small house on a hill"]).signature.split("|")[3]
    'tok:13a'
    """
    return _score(BLEU(tokenize=tokenize, references=[references]), hypotheses)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Score detokenised text with chrF2++ alone.

    >>> corpus_chrf(["a small house"], ["a small house"]).name
    'chrF2++'
    """
    return _score(CHRF(word_order=2, references=[references]), hypotheses)


def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Score text that is already tokenised, as the paper does; never comparable with sacreBLEU's BLEU.

    >>> tokenised_bleu(["a small house , on the hill"], ["a small house , on the hill"]).name
    'tokenised BLEU'
    """
    metric = BLEU(tokenize="none", force=True, references=[references])
    score = _score(metric, hypotheses)
    return Score(TOKENISED_BLEU, score.value, score.signature)


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Score each sentence by itself with chrF2++, which unlike BLEU is defined for short ones.

    >>> sentence_chrf(["house", ""], ["house", "garden"])
    [100.0, 0.0]
    """
    metric = CHRF(word_order=2)
    return [
        metric.sentence_score(hypothesis, [reference]).score
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def compare(
    baseline: tuple[str, Sequence[str]],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    n_samples: int,
    tokenize: str | None = None,
) -> Compared:
    """Score all systems and test each against the baseline on every metric; `baseline` is its name and its lines."""
    names = [baseline[0], *systems]
    metrics = _metrics(references, tokenize)
    plain = [str(metric.get_signature()) for metric in metrics.values()]  # the test writes its own settings into them
    test = PairedTest([baseline, *systems.items()], metrics, None, test_type="bs", n_samples=n_samples)
    signatures, columns = test()
    scores: dict[str, list[Score]] = {name: [] for name in names}
    compared: dict[str, list[Comparison]] = {name: [] for name in systems}
    for (metric, signature), without_test in zip(signatures.items(), plain, strict=True):
        results = [cell for cell in columns[metric] if isinstance(cell, Result)]
        for name, result in zip(names, results, strict=True):
            scores[name].append(Score(metric, float(result.score), without_test))
        for name, result in zip(systems, results[1:], strict=True):
            difference = float(result.score - results[0].score)
            compared[name].append(_comparison(baseline[0], metric, difference, result, str(signature)))
    return Compared({name: Quality(*three) for name, three in scores.items()}, compared)


def _comparison(baseline: str, metric: str, difference: float, result: Result, signature: str) -> Comparison:
    p_value, mean, interval = (float(value or 0.0) for value in (result.p_value, result.mean, result.ci))
    return Comparison(baseline, metric, difference, p_value, mean, interval, signature)


def _metrics(references: Sequence[str], tokenize: str | None) -> dict[str, Metric]:
    # The references are given here, not at each call, so that their statistics are counted once.
    lines = [references]
    return {
        "BLEU": BLEU(tokenize=tokenize, references=lines),
        "CHRF": CHRF(word_order=2, references=lines),
        "TER": TER(references=lines),
    }


def _score(metric: Metric, hypotheses: Sequence[str]) -> Score:
    score = metric.corpus_score(hypotheses, None)
    return Score(score.name, score.score, str(metric.get_signature()))
