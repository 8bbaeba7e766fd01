"""Tables as Markdown, as LaTeX and as HTML."""

import re

import pytest

from recoversat.measuring.reports.table import Table, latex_text, to_html, to_latex, to_markdown

NASTY = '<script>alert("1")</script> a|b'


def test_markdown_rows_all_have_the_same_cells_even_with_bars_in_names():
    text = to_markdown(Table("t", ["a", "b"], [[NASTY, "1"], ["x\ny", "2"]]))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_a_table_with_a_short_row_is_refused():
    with pytest.raises(ValueError, match="1 cells under 2 heads"):
        Table("t", ["a", "b"], [["1"]])


def test_html_tables_mark_their_heads_and_escape():
    text = to_html(Table(NASTY, ["System", "BLEU"], [[NASTY, "1"]], notes=[NASTY]))
    assert "<script" not in text
    assert text.count('scope="col"') == 2
    assert text.count('scope="row"') == 1
    assert "<caption>&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        (r"50 % & $3 #1 {a_b}", r"50 \% \& \$3 \#1 \{a\_b\}"),
        ("~^\\", r"\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("a<b>c|d", r"a\textless{}b\textgreater{}c\textbar{}d"),
        ("Δ BLEU ± 0.3 – ∞ ρ τ-b “q”", r"$\Delta$ BLEU $\pm$ 0.3 -- $\infty$ $\rho$ $\tau$-b ``q''"),
        ("[1]*\n2", "{[}1]{*} 2"),
        (r"\textbackslash{}", r"\textbackslash{}textbackslash\{\}"),
    ],
)
def test_what_means_something_to_latex_is_escaped(text, latex):
    assert latex_text(text) == latex


def test_latex_tables_have_the_rules_of_booktabs_and_as_many_cells_in_every_row():
    rows = [["a&b", "[x", "1"], ["c", "50 %", "2"]]
    table = Table("R&D", ["Test set", "System", "BLEU"], rows, n_labels=2, notes=["p_1"])
    lines = to_latex(table).splitlines()
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"\begin{tabular}{llr}" in lines
    assert r"\caption{R\&D}" in lines
    assert r"\par\footnotesize p\_1" in lines
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 3
    assert all(len(re.findall(r"(?<!\\)&", row)) == 2 for row in rows)
    assert [line.startswith(r"\begin") for line in lines].count(True) == 2
    assert [line.startswith(r"\end") for line in lines].count(True) == 2
