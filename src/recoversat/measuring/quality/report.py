"""One report for several systems and test sets: Markdown, JSON lines and one self-contained HTML page.

The page is for light and dark screens and for screen readers. The policy in page.html makes the browser itself refuse
whatever would leave the file.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template

from recoversat.files.storage import write_text
from recoversat.measuring.quality.metrics import METRICS
from recoversat.measuring.quality.outputs import signature_text
from recoversat.measuring.quality.results import Result
from recoversat.measuring.quality.tables import comparison_table, confidence_table, results_table
from recoversat.measuring.reports.plots import Plot, embeddable_svg, write_plot
from recoversat.measuring.reports.table import Table, to_html, to_markdown
from recoversat.measuring.system import JSON


def to_record(result: Result) -> dict[str, JSON]:
    """Give everything known about a result as one JSON object; what is infinite or unknown is null."""
    output = result.output
    return {
        "system": output.name,
        "test_set": output.test_set,
        "test_set_hash": result.test_set_hash,
        "sentences": len(output.hypotheses),
        **{key: _plain(result.quality.get(key)) for key in METRICS},
        "comparisons": [_plain(comparison) for comparison in result.comparisons],
        **{key: _plain(getattr(result, key)) for key in ("errors", "steps", "segments", "confidence")},
        "latency_ms": output.latency_ms,
        "signature": output.signature,
    }


def to_jsonl(results: Sequence[Result]) -> str:
    return "".join(json.dumps(to_record(r), ensure_ascii=False, allow_nan=False) + "\n" for r in results)


def report_markdown(results: Sequence[Result], tables: Sequence[Table] = ()) -> str:
    """Write the results, the tests behind them, `tables` of your own and all signatures."""
    parts = [to_markdown(table) for table in _all_tables(results, tables)]
    signatures = "\n".join(f"- {name}: `{text}`" for name, text in signatures_of(results))
    return "\n".join([*parts, f"**Signatures**\n\n{signatures}\n"])


def write_report(
    folder: Path,
    results: Sequence[Result],
    *,
    plots: Sequence[Plot] = (),
    tables: Sequence[Table] = (),
    title: str = "Evaluation",
) -> Path:
    """Write report.md, results.jsonl, report.html and plots/, each whole or not at all; return the page."""
    page = _html_page(title, _all_tables(results, tables), plots, signatures_of(results))
    for plot in plots:
        write_plot(folder / "plots", plot)
    write_text(folder / "results.jsonl", to_jsonl(results))
    write_text(folder / "report.html", page)
    write_text(folder / "report.md", f"# {title}\n\n{report_markdown(results, tables)}")
    return folder / "report.html"


def _html_page(
    title: str, tables: Sequence[Table], plots: Sequence[Plot], signatures: Sequence[tuple[str, str]]
) -> str:
    """Put the first table, plots, the other tables and signatures on one page; all text is escaped."""
    first, *others = map(to_html, tables)
    sections = [first]
    if plots:
        captions = [f"<figcaption>{escape(plot.title)}</figcaption>" for plot in plots]
        drawn = zip(captions, map(embeddable_svg, plots), strict=True)
        figures = "\n".join(f"<figure>\n{caption}\n{picture}</figure>" for caption, picture in drawn)
        sections.append(f'<section>\n<h2>Plots</h2>\n<div class="plots">\n{figures}\n</div>\n</section>\n')
    if others:
        sections.append(f"<section>\n<h2>Details</h2>\n{''.join(others)}</section>\n")
    entries = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in signatures)
    sections.append(f"<section>\n<h2>Signatures</h2>\n<dl>\n{entries}\n</dl>\n</section>\n")
    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Template(page).substitute(title=escape(title), sections="".join(sections))


def signatures_of(results: Sequence[Result]) -> list[tuple[str, str]]:
    """List each distinct signature once: the metrics', then the systems'."""
    scores = [(score.name, score.signature) for r in results for score in r.quality.values()]
    tests = [(f"{c.metric}, paired bootstrap", c.signature) for r in results for c in r.comparisons]
    sets = [(f"test set {r.output.test_set}", f"hash:{r.test_set_hash}") for r in results]
    systems = [(r.output.name, signature_text(r.output.signature) or "(no settings given)") for r in results]
    return list(dict.fromkeys([*scores, *tests, *sets, *systems]))


def _all_tables(results: Sequence[Result], extra: Sequence[Table]) -> list[Table]:
    ours = (results_table(results), comparison_table(results), confidence_table(results))
    return [table for table in ours if table is not None] + list(extra)


def _plain(value: object) -> JSON:
    """Turn one of our dataclasses into JSON; infinity is not JSON and becomes null."""
    if value is None:
        return None
    return {
        key: None if isinstance(item, float) and math.isinf(item) else item
        for key, item in asdict(value).items()  # type: ignore[call-overload]
    }
