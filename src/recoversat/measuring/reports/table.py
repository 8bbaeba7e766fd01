"""A table that can be written as Markdown, as LaTeX and as accessible HTML."""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape

MISSING = "–"
# What means something to LaTeX, or is not in its text fonts.
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "–": "--", "“": "``", "”": "''",
    "[": "{[}", "*": "{*}",  # after the end of a row they would be its options
    "±": r"$\pm$", "∞": r"$\infty$", "Δ": r"$\Delta$", "ρ": r"$\rho$", "τ": r"$\tau$", "\n": " ",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}  # fmt: skip


class TableFormat(StrEnum):
    MARKDOWN = "markdown"
    LATEX = "latex"


@dataclass(frozen=True)
class Table:
    """A caption, column heads, rows of cells that are ready to print, and notes below.

    The first `n_labels` columns name the row; the others are numbers and stand right-aligned, or sentences (`prose`).
    """

    caption: str
    columns: list[str]
    rows: list[list[str]]
    n_labels: int = 1
    notes: list[str] = field(default_factory=list)
    prose: bool = False

    @property
    def sides(self) -> list[str]:
        """Where the text of each column stands: < or >."""
        return ["<" if index < self.n_labels or self.prose else ">" for index in range(len(self.columns))]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.caption}: a row of {len(row)} cells under {len(self.columns)} heads: {row}")


def number(value: float | None, digits: int = 2) -> str:
    """Print a number, or a dash where there is none.

    >>> number(29.9), number(None), number(float("inf"))
    ('29.90', '–', '∞')
    """
    if value is None:
        return MISSING
    return "∞" if value == float("inf") else f"{value:.{digits}f}"


def without_empty_columns(table: Table) -> Table:
    """Drop the columns in which no row says anything.

    >>> without_empty_columns(Table("t", ["a", "b"], [["x", "–"]])).columns
    ['a']
    """
    kept = [
        index
        for index in range(len(table.columns))
        if index < table.n_labels or any(row[index] != MISSING for row in table.rows)
    ]
    rows = [[row[index] for index in kept] for row in table.rows]
    return replace(table, columns=[table.columns[index] for index in kept], rows=rows)


def to_markdown(table: Table) -> str:
    """Write a Markdown table under its caption, columns padded so that it also reads well as text.

    >>> print(to_markdown(Table("Speed", ["K", "ms"], [["2", "9.1"]])))
    **Speed**
    <BLANKLINE>
    | K |  ms |
    |:--|----:|
    | 2 | 9.1 |
    <BLANKLINE>
    """
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = table.sides
    rule = [f":{'-' * (w + 1)}" if side == "<" else f"{'-' * (w + 1)}:" for w, side in zip(widths, sides, strict=True)]
    head, *lines = (
        " | ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        for row in cells
    )
    body = "\n".join([f"| {head} |", f"|{'|'.join(rule)}|", *(f"| {line} |" for line in lines)])
    notes = "".join(f"\n{note}\n" for note in table.notes)
    return f"**{table.caption}**\n\n{body}\n{notes}"


def to_latex(table: Table) -> str:
    r"""Write a LaTeX table with the rules of booktabs.

    >>> print(to_latex(Table("Speed", ["K", "ms"], [["2", "9.1"]], notes=["50 % faster"])))
    \begin{table}
    \centering
    \caption{Speed}
    \begin{tabular}{lr}
    \toprule
    K & ms \\
    \midrule
    2 & 9.1 \\
    \bottomrule
    \end{tabular}
    \par\footnotesize 50 \% faster
    \end{table}
    <BLANKLINE>
    """
    head, *rows = (" & ".join(map(latex_text, row)) + r" \\" for row in (table.columns, *table.rows))
    sides = "".join("l" if side == "<" else "r" for side in table.sides)
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{latex_text(table.caption)}}}", rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}",
        *(rf"\par\footnotesize {latex_text(note)}" for note in table.notes), r"\end{table}",
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def latex_text(text: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)


def written(table: Table, form: TableFormat) -> str:
    """Write a table in a form that can be chosen."""
    return to_latex(table) if form == TableFormat.LATEX else to_markdown(table)


def to_html(table: Table) -> str:
    """Write an HTML table whose heads are marked as such; it scrolls by itself when it is too wide."""
    caption, n = escape(table.caption), table.n_labels
    marks = [' class="label"' if side == "<" else "" for side in table.sides]
    heads = [f'<th scope="col"{mark}>{escape(head)}</th>' for mark, head in zip(marks, table.columns, strict=True)]
    cells = [
        [f'<th scope="row">{escape(cell)}</th>' for cell in row[:n]] + [f"<td>{escape(cell)}</td>" for cell in row[n:]]
        for row in table.rows
    ]
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    notes = "".join(f'<p class="note">{escape(note)}</p>\n' for note in table.notes)
    # A region that scrolls must be reachable by keyboard: hence tabindex, role and a name.
    opening = '<table class="prose">' if table.prose else "<table>"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">\n'
        f"{opening}\n<caption>{caption}</caption>\n<thead><tr>{''.join(heads)}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table>\n</div>\n{notes}"
    )
