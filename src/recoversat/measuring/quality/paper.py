"""The paper's own figures, and tables that set ours beside them.

The paper scores tokenised text; ours is sacreBLEU on detokenised text unless the caption says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from recoversat.measuring.quality.results import Result
from recoversat.measuring.reports.table import Table, number

Figures = Mapping[str, float | None]

_DIGITS = {"BLEU": 2, "Rep": 2, "Mis": 2, "Step": 1, "Speedup": 2}


@dataclass(frozen=True)
class Study:
    """One of the paper's tables: what varies, and the figures for each value of it."""

    symbol: str
    title: str
    columns: tuple[str, ...]
    rows: dict[str, Figures]


def _rows(columns: tuple[str, ...], table: dict[str, tuple[float, ...]]) -> dict[str, Figures]:
    return {label: dict(zip(columns, values, strict=True)) for label, values in table.items()}


_P_COLUMNS = ("BLEU", "Rep", "Mis", "Step")
DYNAMIC_TERMINATION = Study(
    symbol="p",
    title="Effect of the dynamic termination mechanism (paper: IWSLT16 En-De test2013, K = 10)",
    columns=_P_COLUMNS,
    rows=_rows(
        _P_COLUMNS,
        {
            "NAT": (24.57, 50.09, 9.09, 1),
            "0": (27.09, 22.05, 6.95, 4.2),
            "0.5": (29.80, 12.69, 3.96, 5.5),
            "1": (29.89, 13.00, 4.75, 7.2),
            "1->0": (29.90, 7.09, 3.56, 5.1),
        },
    ),
)

_Q_COLUMNS = ("BLEU", "Rep", "Step")
SEGMENT_DELETION = Study(
    symbol="q",
    title="Effect of the segment deletion mechanism (paper: IWSLT16 En-De test2013, K = 10)",
    columns=_Q_COLUMNS,
    rows=_rows(
        _Q_COLUMNS,
        {
            "NAT": (24.57, 50.09, 1),
            "0": (28.56, 26.24, 4.4),
            "0.1": (29.73, 5.11, 4.7),
            "0.3": (29.61, 7.71, 5.1),
            "0.5": (29.90, 7.09, 5.1),
            "0.7": (29.76, 11.47, 5.2),
            "0.9": (29.25, 21.38, 5.3),
            "1": (29.13, 20.55, 5.2),
        },
    ),
)

_K_COLUMNS = ("BLEU", "Speedup")


def _main(dataset: str, at_bleu: float, by_k: dict[str, tuple[float, ...]]) -> Study:
    title = f"Quality and speed over K (paper: {dataset}, P40, batch 1)"
    return Study("K", title, _K_COLUMNS, _rows(_K_COLUMNS, {"AT": (at_bleu, 1.0), **by_k}))


MAIN_RESULTS = {
    "iwslt16.en-de": _main(
        "IWSLT16 En-De test2013", 31.18, {"2": (30.78, 2.06), "5": (30.55, 3.28), "10": (29.90, 4.68)}
    ),
    "wmt14.en-de": _main("WMT14 En-De", 27.17, {"2": (27.11, 2.16), "5": (26.91, 3.17), "10": (26.32, 4.31)}),
    "wmt14.de-en": _main("WMT14 De-En", 31.95, {"2": (31.67, 2.16), "5": (31.22, 3.17), "10": (30.46, 4.31)}),
    "wmt16.en-ro": _main("WMT16 En-Ro", 32.86, {"2": (32.92, 2.02), "5": (32.81, 3.16), "10": (32.59, 4.31)}),
    "wmt16.ro-en": _main("WMT16 Ro-En", 32.60, {"2": (33.19, 2.02), "5": (32.80, 3.16), "10": (32.29, 4.31)}),
}


def row_label(value: float | str) -> str:
    """Spell a setting as the tables do.

    >>> row_label(0.5), row_label(1.0), row_label("1 → 0"), row_label("1.0->0.0"), row_label("NAT")
    ('0.5', '1', '1->0', '1->0', 'NAT')
    """
    parts = str(value).replace("→", "->").split("->")
    try:
        return "->".join(f"{float(part):g}" for part in parts)
    except ValueError:
        return str(value)


def figures_of(result: Result, at_latency_ms: float | None = None) -> dict[str, float | None]:
    """Take from a result what the paper's tables show; Speedup is the AT system's latency over ours."""
    latency = result.output.latency_ms
    return {
        "BLEU": result.quality["bleu"].value,
        "Rep": result.errors.rep if result.errors else None,
        "Mis": result.errors.mis if result.errors else None,
        "Step": result.steps.mean if result.steps else None,
        "Speedup": at_latency_ms / latency if at_latency_ms and latency else None,
    }


def ablation_table(study: Study, measured: Mapping[float | str, Figures]) -> Table:
    """Set our figures beside the paper's; values that only one side has are shown with dashes.

    >>> table = ablation_table(SEGMENT_DELETION, {0.5: {"BLEU": 30.0, "Rep": 6.5, "Step": 5.0}})
    >>> table.rows[4]
    ['0.5', '30.00', '29.90', '6.50', '7.09', '5.0', '5.1']
    """
    ours = {row_label(value): figures for value, figures in measured.items()}
    labels = [*study.rows, *(label for label in ours if label not in study.rows)]
    heads = [head for column in study.columns for head in (column, f"{column} (paper)")]
    rows = [[label, *_side_by_side(study.columns, ours.get(label, {}), study.rows.get(label, {}))] for label in labels]
    note = "The paper's BLEU is on tokenised text, with other data and hardware: compare the trends."
    return Table(study.title, [study.symbol, *heads], rows, notes=[note])


def _side_by_side(columns: tuple[str, ...], ours: Figures, paper: Figures) -> list[str]:
    return [number(side.get(column), _DIGITS[column]) for column in columns for side in (ours, paper)]
