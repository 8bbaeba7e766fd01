"""The tables of a report: scores, the bootstrap behind them, confidence."""

from collections.abc import Sequence

from recoversat.measuring.quality.metrics import METRICS, Comparison
from recoversat.measuring.quality.outputs import TestSet
from recoversat.measuring.quality.results import Result
from recoversat.measuring.reports.table import MISSING, Table, number, without_empty_columns

_HALVES = ("BLEU, surer / other half", "chrF2++, surer / other half")


def results_table(results: Sequence[Result]) -> Table:
    """Put all results into one table; columns that nobody fills are left out."""
    cells = [_cells(result) | {"Speedup": _speedup(result, results)} for result in results]
    rows = [list(row.values()) for row in cells]
    return without_empty_columns(Table("Results", list(cells[0]), rows, n_labels=2, notes=_notes(results)))


def comparison_table(results: Sequence[Result]) -> Table | None:
    """Show every metric's paired bootstrap, or None when there was no baseline."""
    compared = [result for result in results if result.comparisons]
    if not compared:
        return None
    metrics = [comparison.metric for comparison in compared[0].comparisons]
    rows = [[r.output.test_set, r.output.name] for r in compared]
    for row, result in zip(rows, compared, strict=True):
        for one in result.comparisons:
            row += [f"{one.mean:.2f} ± {one.interval:.2f}", f"{one.difference:+.2f}", _p_value(one)]
    return Table(
        caption=f"Paired bootstrap against {_baselines(results)}",
        columns=["Test set", "System", *(head for m in metrics for head in (m, f"Δ {m}", "p"))],
        rows=rows,
        n_labels=2,
        notes=[
            "Scores are means over the resamples, ± half of the 95 % interval. A difference with p < 0.05"
            " is unlikely to be an accident of this test set's sentences."
        ],
    )


def confidence_table(results: Sequence[Result]) -> Table | None:
    """Show how well each system's score ranks its sentences, or None when no system gives scores."""
    rows = []
    for result in results:
        if result.confidence is None:
            continue
        halves = result.confidence.halves
        pairs = ((halves.top_bleu, halves.bottom_bleu), (halves.top_chrf, halves.bottom_chrf)) if halves else ()
        ranks = [number(result.confidence.spearman, 3), number(result.confidence.kendall, 3)]
        cells = [f"{top:.2f} / {bottom:.2f}" for top, bottom in pairs] or [MISSING] * len(_HALVES)
        rows.append([result.output.test_set, result.output.name, *ranks, *cells])
    if not rows:
        return None
    return Table(
        caption="Confidence: does it tell good sentences from bad ones?",
        columns=["Test set", "System", "Spearman ρ", "Kendall τ-b", *_HALVES],
        rows=rows,
        n_labels=2,
        notes=[
            "Correlation with sentence-level chrF2++; 1 = perfect ranking, 0 = none. Ranked by confidence where the way"
            " of decoding has it, else by the mean log-probability."
        ],
    )


def examples_table(test_set: TestSet, results: Sequence[Result], systems: Sequence[str], n: int = 20) -> Table:
    """Set sentences from all over a test set beside what each of some systems wrote for them."""
    written = {r.output.name: r.output.hypotheses for r in results if r.output.test_set == test_set.name}
    columns = [test_set.sources, test_set.references, *(written[name] for name in systems)]
    total = len(test_set.sources)
    chosen = [index * total // n for index in range(n)] if n < total else range(total)
    return Table(
        caption=f"Examples from {test_set.name}",
        columns=["Line", "Source", "Reference", *systems],
        rows=[[str(index + 1), *(column[index] for column in columns)] for index in chosen],
        prose=True,
    )


def _cells(result: Result) -> dict[str, str]:
    """Fill all columns but the last, which needs the other results."""
    errors, segments = result.errors, result.segments
    k = result.output.signature["K"]
    compared = (f"{c.difference:+.2f} (p = {_p_value(c)})" for c in result.comparisons if c.metric == "BLEU")
    bleu, *scores = (
        (metric.name, number(result.quality[key].value if key in result.quality else None))
        for key, metric in METRICS.items()
    )
    return {
        "Test set": result.output.test_set,
        "System": result.output.name,
        "K": MISSING if k is None else str(k),
        **dict([bleu, ("vs baseline", next(compared, MISSING)), *scores]),
        "Rep %": number(errors.rep if errors else None),
        "Mis %": number(errors.mis if errors else None),
        "Step": number(result.steps.mean if result.steps else None),
        "Deleted": _percent(segments.deleted_share if segments else None),
        "Cut off": _percent(segments.cut_share if segments else None),
        "ms": number(result.output.latency_ms, 1),
    }


def _speedup(result: Result, results: Sequence[Result]) -> str:
    """Say how many times faster than the AT system; only timings by one engine on one device are comparable."""
    at_system, latency = result.errors.relative_to if result.errors else None, result.output.latency_ms
    for other in results:
        if (other.output.test_set, other.output.name) == (result.output.test_set, at_system) and latency:
            at_latency = other.output.latency_ms
            return MISSING if at_latency is None else f"{at_latency / latency:.2f}x"
    return MISSING


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.1f} %"


def _p_value(comparison: Comparison) -> str:
    # sacreBLEU gives a difference of exactly zero the smallest p there is, which reads as "significant".
    return MISSING if comparison.difference == 0 else f"{comparison.p_value:.3f}"


def _baselines(results: Sequence[Result]) -> str:
    return ", ".join(sorted({comparison.baseline for r in results for comparison in r.comparisons}))


def _notes(results: Sequence[Result]) -> list[str]:
    shown = [METRICS[key] for key in results[0].quality]
    *names, last = (metric.name for metric in shown if not metric.tokenised)
    less = [metric.name for metric in shown if metric.higher_is_better is False]
    notes = [
        f"{', '.join(names)} and {last}: sacreBLEU on detokenised text;"
        f" of {', '.join([*less, 'Rep', 'Mis'])} and Step, less is better."
    ]
    if at_systems := sorted({r.errors.relative_to for r in results if r.errors}):
        notes.append(
            f"Rep and Mis: increment of repeated and of missing tokens relative to {', '.join(at_systems)},"
            " in percent; ∞ = that system has none, – = written in other sub-words than its own."
        )
    for name in at_systems:
        if any(r.output.name == name and r.output.signature["K"] not in (None, 1) for r in results):
            notes.append(f"{name} is not autoregressive (K > 1): Rep and Mis cannot be compared with the paper's.")
    if baselines := _baselines(results):
        notes.append(f"“vs baseline”: BLEU minus that of {baselines}, p by paired bootstrap.")
    if any(_speedup(r, results) != MISSING for r in results):
        notes.append(f"ms: mean of one sentence at batch 1. Speedup: over {', '.join(at_systems)}.")
    if any(r.segments for r in results):
        notes.append("Deleted, Cut off: share of all segments that ended with DEL, or at the maximum length.")
    if split := sorted({r.output.name for r in results if r.output.settings.get("text") == "tokenised"}):
        notes.append(
            f"{', '.join(split)}: trained on tokenised text ('@@ '), so the text is still tokenised when it is scored."
        )
    return notes + [metric.note for metric in shown if metric.note]
