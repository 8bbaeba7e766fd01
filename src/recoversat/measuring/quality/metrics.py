"""The metrics: an entry of `METRICS` is all that a new one takes, with sacreBLEU's signature and paired bootstrap.

Every score of sacreBLEU's own metrics is what its command prints for the same lines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from recoversat.errors import UserError

References = Sequence[Sequence[str]]  # all translations 1, all translations 2, ... of the sources


@dataclass(frozen=True)
class Metric:
    """One way to score a corpus: what it is called, and how sacreBLEU is asked for it."""

    name: str  # in tables
    make: Callable[[References, str | None], SacreMetric]  # from references and --tokenize
    higher_is_better: bool | None = True  # None = neither more nor less
    always: bool = True  # False = only where --metric names it
    tokenised: bool = False  # is for text that is still tokenised
    note: str | None = None  # below the table


class _LengthRatio(BLEU):
    """What BLEU's brevity penalty looks at, in percent: below 100 words are missing, above it there are too many."""

    def _compute_score_from_stats(self, stats: list[int]) -> BLEUScore:
        score = super()._compute_score_from_stats(stats)
        score.score = 100 * score.ratio
        return score


METRICS: dict[str, Metric] = {
    "bleu": Metric("BLEU", lambda references, tokenize: BLEU(tokenize=tokenize, references=references)),
    "chrf": Metric("chrF2++", lambda references, _: CHRF(word_order=2, references=references)),
    "ter": Metric("TER", lambda references, _: TER(references=references), higher_is_better=False),
    "tokenised_bleu": Metric(
        "tokenised BLEU",
        lambda references, _: BLEU(tokenize="none", force=True, references=references),
        always=False,
        tokenised=True,
        note="Tokenised BLEU is for comparison with the paper only.",
    ),
    "length_ratio": Metric(
        "length ratio",
        lambda references, tokenize: _LengthRatio(tokenize=tokenize, references=references),
        higher_is_better=None,
        always=False,
        note="Length ratio: words written for 100 words of the references, punctuation included.",
    ),
}


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature without which it means nothing."""

    name: str
    value: float
    signature: str


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


def chosen_metrics(more: Iterable[str], tokenize: str | None = None) -> list[str]:
    """Return the metrics that are always there and those asked for; refuse what cannot be computed here."""
    if unknown := sorted(set(more) - METRICS.keys()):
        raise UserError(f"--metric {unknown[0]}: no such metric; there are {', '.join(METRICS)}")
    try:
        BLEU(tokenize=tokenize)
    except KeyError:
        raise UserError(f"--tokenize {tokenize}: sacreBLEU has no such tokenizer; see sacrebleu --help") from None
    except (RuntimeError, ImportError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"--tokenize {tokenize}: {first}") from None
    return [key for key, metric in METRICS.items() if metric.always or key in more]


def corpus_score(key: str, hypotheses: Sequence[str], references: Sequence[str], tokenize: str | None = None) -> Score:
    """Score a corpus; `tokenize` is sacreBLEU's for BLEU in languages without blanks ('zh', 'ja-mecab')."""
    metric = METRICS[key].make([references], tokenize)
    return Score(METRICS[key].name, metric.corpus_score(hypotheses, None).score, str(metric.get_signature()))


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    return corpus_score("bleu", hypotheses, references)


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


def score_systems(
    key: str,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    baseline: str | None = None,
    n_samples: int = 1000,
    tokenize: str | None = None,
) -> tuple[dict[str, Score], dict[str, Comparison]]:
    """Score what systems wrote; test each against the baseline, where there is one, in the same pass."""
    name, metric = METRICS[key].name, METRICS[key].make([references], tokenize)
    plain = str(metric.get_signature())  # the test writes its own settings into it
    if baseline is None or len(systems) == 1:
        return {who: Score(name, metric.corpus_score(lines, None).score, plain) for who, lines in systems.items()}, {}
    ordered = sorted(systems.items(), key=lambda system: system[0] != baseline)
    signatures, columns = PairedTest(ordered, {key: metric}, None, test_type="bs", n_samples=n_samples)()
    ((column, signature),) = signatures.items()
    results = [cell for cell in columns[column] if isinstance(cell, Result)]
    scores, compared = {}, {}
    for (who, _), result in zip(ordered, results, strict=True):
        scores[who] = Score(name, float(result.score), plain)
        if who != baseline:
            difference = float(result.score - results[0].score)
            p_value, mean, interval = (float(value or 0.0) for value in (result.p_value, result.mean, result.ci))
            compared[who] = Comparison(baseline, name, difference, p_value, mean, interval, str(signature))
    return scores, compared
