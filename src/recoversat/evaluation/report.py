"""One report for several systems and test sets: Markdown, JSON lines and one self-contained HTML page."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from recoversat.errors import UserError
from recoversat.evaluation.html_page import html_page
from recoversat.evaluation.outputs import JSON, TestSet, signature_text
from recoversat.evaluation.plots import (
    Plot,
    plot_bleu_by_length,
    plot_quality_speed,
    plot_segment_lengths,
    plot_steps,
    write_plot,
)
from recoversat.evaluation.quality import Comparison, Score
from recoversat.evaluation.results import Result
from recoversat.evaluation.table import MISSING, Table, number, to_markdown, without_empty_columns
from recoversat.storage import write_text


@dataclass(frozen=True)
class ReportFiles:
    """Where the parts of a report were written."""

    markdown: Path
    jsonl: Path
    html: Path
    plots: list[Path]


def results_table(results: Sequence[Result]) -> Table:
    """Put all results into one table; columns that nobody fills are left out."""
    table = Table(
        caption="Results",
        columns=["Test set", "System", "K", *(head for head, _ in _COLUMNS)],
        rows=[[r.output.test_set, r.output.name, _k(r), *(cell(r) for _, cell in _COLUMNS)] for r in results],
        n_labels=2,
        notes=_notes(results),
    )
    return without_empty_columns(table)


def comparison_table(results: Sequence[Result]) -> Table | None:
    """Show every metric's paired bootstrap, or None when there was no baseline."""
    rows = [
        [r.output.test_set, r.output.name, c.metric, *_comparison_cells(c)]
        for r in results
        for c in r.comparisons
    ]
    if not rows:
        return None
    baselines = sorted({c.baseline for r in results for c in r.comparisons})
    return Table(
        caption=f"Paired bootstrap against {', '.join(baselines)}",
        columns=["Test set", "System", "Metric", "Difference", "p", "Mean", "95 % ±"],
        rows=rows,
        n_labels=3,
        notes=["A difference with p < 0.05 is unlikely to be an accident of this test set's sentences."],
    )


def confidence_table(results: Sequence[Result]) -> Table | None:
    """Show how well each system's score ranks its sentences, or None when no system gives scores."""
    rows = []
    for result in results:
        if result.confidence is None:
            continue
        halves = result.confidence.halves
        cells = (
            [halves.top_bleu, halves.bottom_bleu, halves.top_chrf, halves.bottom_chrf]
            if halves
            else [None] * 4
        )
        ranks = [number(result.confidence.spearman, 3), number(result.confidence.kendall, 3)]
        rows.append([result.output.test_set, result.output.name, *ranks, *map(number, cells)])
    if not rows:
        return None
    return Table(
        caption="Confidence: does the mean log-probability tell good sentences from bad ones?",
        columns=[
            "Test set",
            "System",
            "Spearman ρ",
            "Kendall τ-b",
            "BLEU, surer half",
            "BLEU, other half",
            "chrF2++, surer half",
            "chrF2++, other half",
        ],  # fmt: skip
        rows=rows,
        n_labels=2,
        notes=["Correlation of the score with sentence-level chrF2++; 1 = perfect ranking, 0 = none."],
    )


def to_record(result: Result) -> dict[str, JSON]:
    """Give everything known about a result as one JSON object; what is infinite or unknown is null."""
    output, quality = result.output, result.quality
    record: dict[str, JSON] = {
        "system": output.name,
        "test_set": output.test_set,
        "test_set_hash": result.test_set_hash,
        "sentences": len(output.hypotheses),
        "bleu": _plain(quality.bleu),
        "chrf": _plain(quality.chrf),
        "ter": _plain(quality.ter),
        "tokenised_bleu": _plain(quality.tokenised_bleu),
        "comparisons": [_plain(comparison) for comparison in result.comparisons],
        "errors": _plain(result.errors),
        "steps": _plain(result.steps),
        "segments": _plain(result.segments),
        "confidence": _plain(result.confidence),
        "latency_ms": output.latency_ms,
        "signature": output.signature,
    }
    return record


def to_jsonl(results: Sequence[Result]) -> str:
    """Write one line a system and test set."""
    return "".join(json.dumps(to_record(r), ensure_ascii=False, allow_nan=False) + "\n" for r in results)


def report_markdown(results: Sequence[Result], tables: Sequence[Table] = ()) -> str:
    """Write the results, the tests behind them, `tables` of your own and all signatures."""
    parts = [to_markdown(table) for table in _all_tables(results, tables)]
    signatures = "\n".join(f"- {name}: `{text}`" for name, text in signatures_of(results))
    return "\n".join([*parts, f"**Signatures**\n\n{signatures}\n"])


def standard_plots(results: Sequence[Result], test_sets: Sequence[TestSet]) -> list[Plot]:
    """Draw for each test set whatever the results allow."""
    plots: list[Plot] = []
    for test_set in test_sets:
        here = [result for result in results if result.output.test_set == test_set.name]
        if not here:
            continue
        plots.append(plot_bleu_by_length([result.output for result in here], test_set))
        if any(result.output.latency_ms is not None for result in here):
            plots.append(plot_quality_speed(here, test_set.name))
        if steps := {r.output.name: r.steps.counts for r in here if r.steps}:
            plots.append(plot_steps(steps, test_set.name))
        lengths = {r.output.name: r.segments.length_counts for r in here if r.segments}
        if any(lengths.values()):
            plots.append(plot_segment_lengths(lengths, test_set.name))
    return plots


def write_report(
    folder: Path,
    results: Sequence[Result],
    *,
    plots: Sequence[Plot] = (),
    tables: Sequence[Table] = (),
    title: str = "Evaluation",
) -> ReportFiles:
    """Write report.md, results.jsonl, report.html and plots/ into `folder`, each file whole or not at all."""
    if not results:
        raise UserError(f"{folder}: no report to write, there are no results")
    page = html_page(title, _all_tables(results, tables), plots, signatures_of(results))
    files = ReportFiles(folder / "report.md", folder / "results.jsonl", folder / "report.html", [])
    for plot in plots:
        files.plots.extend(write_plot(folder / "plots", plot))
    write_text(files.jsonl, to_jsonl(results))
    write_text(files.html, page)
    write_text(files.markdown, f"# {title}\n\n{report_markdown(results, tables)}")
    return files


def signatures_of(results: Sequence[Result]) -> list[tuple[str, str]]:
    """List each distinct signature once: the metrics', then the systems'."""
    found: dict[tuple[str, str], None] = {}
    for result in results:
        quality = result.quality
        scores = [s for s in (quality.bleu, quality.chrf, quality.ter, quality.tokenised_bleu) if s]
        found |= {(score.name, score.signature): None for score in scores}
    for result in results:
        found |= {(f"{c.metric}, paired bootstrap", c.signature): None for c in result.comparisons}
    for result in results:
        found[(f"test set {result.output.test_set}", f"sha:{result.test_set_hash}")] = None
    for result in results:
        found[(result.output.name, signature_text(result.output.signature) or "(no settings given)")] = None
    return list(found)


def _all_tables(results: Sequence[Result], extra: Sequence[Table]) -> list[Table]:
    ours = (results_table(results), comparison_table(results), confidence_table(results))
    return [table for table in ours if table is not None] + list(extra)


def _k(result: Result) -> str:
    k = result.output.signature["K"]
    return MISSING if k is None else str(k)


def _score_cell(score: Score | None) -> str:
    return number(score.value if score else None)


def _significance(result: Result) -> str:
    for comparison in result.comparisons:
        if comparison.metric == "BLEU":
            return f"{comparison.difference:+.2f} (p = {comparison.p_value:.3f})"
    return MISSING


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.1f} %"


_COLUMNS = (
    ("BLEU", lambda r: _score_cell(r.quality.bleu)),
    ("vs baseline", _significance),
    ("chrF2++", lambda r: _score_cell(r.quality.chrf)),
    ("TER", lambda r: _score_cell(r.quality.ter)),
    ("Tokenised BLEU", lambda r: _score_cell(r.quality.tokenised_bleu)),
    ("Rep %", lambda r: number(r.errors and r.errors.rep)),
    ("Mis %", lambda r: number(r.errors and r.errors.mis)),
    ("Step", lambda r: number(r.steps and r.steps.mean)),
    ("Deleted", lambda r: _percent(r.segments and r.segments.deleted_share)),
    ("Cut off", lambda r: _percent(r.segments and r.segments.cut_share)),
    ("ms", lambda r: number(r.output.latency_ms, 1)),
)


def _notes(results: Sequence[Result]) -> list[str]:
    notes = [
        "BLEU, chrF2++ and TER are sacreBLEU's on detokenised text; for TER, Rep, Mis and Step less is better."
    ]
    if at_systems := sorted({r.errors.relative_to for r in results if r.errors}):
        notes.append(
            f"Rep and Mis: increment of repeated and of missing tokens relative to {', '.join(at_systems)},"
            " in percent; ∞ = that system has none."
        )
    if baselines := sorted({c.baseline for r in results for c in r.comparisons}):
        notes.append(f"“vs baseline”: BLEU minus that of {', '.join(baselines)}, p by paired bootstrap.")
    if any(r.quality.tokenised_bleu for r in results):
        notes.append("Tokenised BLEU is for comparison with the paper only.")
    return notes


def _comparison_cells(comparison: Comparison) -> list[str]:
    return [
        f"{comparison.difference:+.2f}",
        f"{comparison.p_value:.4f}",
        number(comparison.mean),
        number(comparison.interval),
    ]


def _plain(value: object) -> JSON:
    """Turn one of our dataclasses into JSON; infinity is not JSON and becomes null."""
    if value is None:
        return None
    return {
        key: None if isinstance(item, float) and math.isinf(item) else item
        for key, item in asdict(value).items()  # type: ignore[call-overload]
    }
