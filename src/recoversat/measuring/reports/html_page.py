"""The HTML report: one file that needs nothing else, for light and dark screens and for screen readers."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from recoversat.measuring.reports.plots import Plot, embeddable_svg
from recoversat.measuring.reports.table import Table, to_html

# The policy makes the browser itself refuse whatever would leave the file.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_CSS = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def html_page(title: str, tables: Sequence[Table], plots: Sequence[Plot], signatures: Sequence[tuple[str, str]]) -> str:
    """Put the first table, plots, the other tables and signatures on one page; all text is escaped."""
    name = escape(title)
    details = "".join(to_html(table) for table in tables[1:])
    sections = [
        "".join(to_html(table) for table in tables[:1]),
        _plots(plots),
        f"<section>\n<h2>Details</h2>\n{details}</section>\n" if details else "",
        _signatures(signatures),
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
<title>{name}</title>
<style>
{_CSS}</style>
</head>
<body>
<main>
<h1>{name}</h1>
<p class="lead">Written by recoversat. Every score stands with its signature at the end of the page.</p>
{"".join(sections)}
</main>
</body>
</html>
"""


def _plots(plots: Sequence[Plot]) -> str:
    if not plots:
        return ""
    figures = "\n".join(
        f"<figure>\n<figcaption>{escape(plot.title)}</figcaption>\n{embeddable_svg(plot)}</figure>" for plot in plots
    )
    return f'<section>\n<h2>Plots</h2>\n<div class="plots">\n{figures}\n</div>\n</section>\n'


def _signatures(signatures: Sequence[tuple[str, str]]) -> str:
    entries = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in signatures)
    return f"<section>\n<h2>Signatures</h2>\n<dl>\n{entries}\n</dl>\n</section>\n"
