"""Tables as Markdown and as HTML."""

import re

import pytest

from recoversat.measuring.reports.table import Table, to_html, to_markdown

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
