"""The HTML report: one file that needs nothing else, for light and dark screens and for screen readers."""

from collections.abc import Sequence
from html import escape

from recoversat.measuring.reports.plots import Plot, embeddable_svg
from recoversat.measuring.reports.table import Table, to_html

# The policy makes the browser itself refuse whatever would leave the file.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_CSS = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4;
  --card: #f6f8fa; --accent: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171c; --ink: #e6e9ed; --soft: #a3abb5; --line: #363d47;
    --card: #1c2129; --accent: #7ab8ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 82rem; padding: 2rem 1.25rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 .25rem; font-size: 1.9rem; line-height: 1.2; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.25rem; }
.lead, .note, figcaption { color: var(--soft); }
.lead { margin: 0 0 1rem; }
.note { margin: .4rem 0 0; font-size: .875rem; }
.scroll { overflow-x: auto; margin-top: 1.5rem; border: 1px solid var(--line); border-radius: 8px; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { width: 100%; border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { padding: .7rem .6rem; text-align: left; font-weight: 600; font-size: 1rem; }
th, td { padding: .4rem .6rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { background: var(--card); font-weight: 600; }
th.label, tbody th { text-align: left; }
tbody th { font-weight: 500; }
tbody tr:hover { background: var(--card); }
.plots { display: grid; gap: 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); }
figure { margin: 0; padding: 1rem; border: 1px solid var(--line); border-radius: 8px; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { margin-bottom: .5rem; font-size: .925rem; }
dl { margin: 0; } dt { margin-top: .6rem; font-weight: 500; }
dd { margin: 0; color: var(--soft); overflow-wrap: anywhere;
  font: .85rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
@media print { .scroll { overflow: visible; } body { max-width: none; } }
"""


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
<style>{_CSS}</style>
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
