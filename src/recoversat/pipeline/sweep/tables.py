"""The paper's ablation tables, our figures beside its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recoversat.measuring.quality.paper import Figures, Study, ablation_table, figures_of
from recoversat.measuring.quality.results import Result
from recoversat.measuring.reports.table import Table, without_empty_columns
from recoversat.pipeline.sweep.variants import Variant

AT = "AT"  # the name of the autoregressive system in a sweep's report

_COLUMNS = ("BLEU", "Rep", "Mis", "Step")


def ablation_tables(
    variants: Sequence[Variant],
    run_of: Mapping[Variant, str],
    results: Sequence[Result],
    published: Mapping[str, Study],
) -> list[Table]:
    """Make a table for each thing that varies and each test set; `run_of` names a variant's system.

    `published` holds the paper's table for each thing that varies, where it has one.
    """
    test_sets = list(dict.fromkeys(result.output.test_set for result in results))
    axes = list(dict.fromkeys(variant.axis for variant in variants))
    tables = []
    for axis in axes:
        along = {variant.label: run_of[variant] for variant in variants if variant.axis == axis}
        for test_set in test_sets:
            here = {result.output.name: result for result in results if result.output.test_set == test_set}
            if any(system in here for system in along.values()):
                tables.append(_table(axis, along, here, test_set, published.get(axis)))
    return tables


def _table(
    axis: str, along: Mapping[str, str], here: Mapping[str, Result], test_set: str, study: Study | None
) -> Table:
    at_system = here.get(AT)
    at_latency = at_system.output.latency_ms if at_system else None
    rows = {**{name: name for name in study.rows if name in here}, **along} if study else along  # AT, NAT
    measured: dict[float | str, Figures] = {
        label: figures_of(here[system], at_latency) for label, system in rows.items() if system in here
    }
    if study is None:  # the paper has no such table: ours stand alone
        table = without_empty_columns(ablation_table(Study(axis, f"Effect of {axis}", _COLUMNS, {}), measured))
        table = replace(table, notes=[])
    else:
        table = ablation_table(study, measured)
    return replace(table, caption=f"{table.caption}; ours on {test_set}")
