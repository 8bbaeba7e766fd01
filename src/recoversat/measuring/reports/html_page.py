"""The HTML report: one file that needs nothing else, for light and dark screens and for screen readers.

The policy in page.html makes the browser itself refuse whatever would leave the file.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from recoversat.measuring.reports.plots import Plot, embeddable_svg
from recoversat.measuring.reports.table import Table, to_html


def html_page(title: str, tables: Sequence[Table], plots: Sequence[Plot], signatures: Sequence[tuple[str, str]]) -> str:
    """Put the first table, plots, the other tables and signatures on one page; all text is escaped."""
    entries = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in signatures)
    details = "".join(to_html(table) for table in tables[1:])
    sections = [
        "".join(to_html(table) for table in tables[:1]),
        _plots(plots),
        f"<section>\n<h2>Details</h2>\n{details}</section>\n" if details else "",
        f"<section>\n<h2>Signatures</h2>\n<dl>\n{entries}\n</dl>\n</section>\n",
    ]
    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Template(page).substitute(title=escape(title), sections="".join(sections))


def _plots(plots: Sequence[Plot]) -> str:
    if not plots:
        return ""
    figures = "\n".join(
        f"<figure>\n<figcaption>{escape(plot.title)}</figcaption>\n{embeddable_svg(plot)}</figure>" for plot in plots
    )
    return f'<section>\n<h2>Plots</h2>\n<div class="plots">\n{figures}\n</div>\n</section>\n'
