"""The paper's own figures, and tables that set ours beside them.

The paper scores tokenised text; ours is sacreBLEU on detokenised text unless the caption says otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recoversat.errors import UserError
from recoversat.measuring.quality.published import DATA_SETS, published
from recoversat.measuring.quality.results import Result
from recoversat.measuring.reports.table import MISSING, Table, number

Figures = Mapping[str, float | None]

_DIGITS = {"BLEU": 2, "Rep": 2, "Mis": 2, "Step": 1, "Speedup": 2}


@dataclass(frozen=True)
class Study:
    """One of the paper's tables: what varies, and the figures for each value of it."""

    symbol: str
    title: str
    columns: tuple[str, ...]
    rows: dict[str, Figures]


def _rows(columns: tuple[str, ...], table: Mapping[str, tuple[float, ...]]) -> dict[str, Figures]:
    return {label: dict(zip(columns, values, strict=True)) for label, values in table.items()}


_P_COLUMNS = ("BLEU", "Rep", "Mis", "Step")
DYNAMIC_TERMINATION = Study(
    symbol="p",
    title="Table 3: effect of the dynamic termination mechanism (paper: IWSLT16 En-De test2013, K = 10)",
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
    title="Table 4: effect of the segment deletion mechanism (paper: IWSLT16 En-De test2013, K = 10)",
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


def _main(data_set: str) -> Study:
    """Take our model and the Transformer from the paper's main table."""
    title = f"Table 2: quality and speed over K (paper: {DATA_SETS[data_set]}, P40, batch 1)"
    own = {"Transformer": "AT", "RecoverSAT (K=2)": "2", "RecoverSAT (K=5)": "5", "RecoverSAT (K=10)": "10"}
    rows = {
        own[row.name]: (float(row.bleu), float(row.speedup.rstrip("x")))
        for row in published(data_set)
        if row.name in own
    }
    return Study("K", title, _K_COLUMNS, _rows(_K_COLUMNS, rows))


MAIN_RESULTS = {data_set: _main(data_set) for data_set in DATA_SETS}


def studies(preset: str | None, src_lang: str, tgt_lang: str) -> dict[str, Study]:
    """Find the paper's tables for a preset, by what varies; the ablations were made on IWSLT16 alone.

    >>> studies("wmt14", "de", "en")["K"].rows["AT"]["BLEU"], sorted(studies("iwslt16", "en", "de"))
    (31.95, ['K', 'p', 'q'])
    """
    of_preset = {key: study for key, study in MAIN_RESULTS.items() if key.startswith(f"{preset}.")}
    if not of_preset:
        return {}
    main = of_preset.get(f"{preset}.{src_lang}-{tgt_lang}", next(iter(of_preset.values())))
    ablations = {"p": DYNAMIC_TERMINATION, "q": SEGMENT_DELETION} if preset == "iwslt16" else {}
    return {"K": main, **ablations}


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


def check_data_set(name: str) -> None:
    """Refuse a data set the paper has no figures for."""
    if name not in DATA_SETS:
        raise UserError(f"--paper {name}: the paper has no such data set; there are: {', '.join(DATA_SETS)}")


def published_table(data_set: str, results: Sequence[Result], at_system: str | None) -> Table:
    """List our systems and below them those of the paper, each with the data it was measured on."""
    at_latency = {r.output.test_set: r.output.latency_ms for r in results if r.output.name == at_system}
    ours = []
    for result in results:
        figures = figures_of(result, at_latency.get(result.output.test_set))
        speedup = figures["Speedup"]
        cells = [number(figures["BLEU"], 2), f"{speedup:.2f}x" if speedup else MISSING]
        ours.append([f"ours: {result.output.name}", result.output.test_set, *cells])
    theirs = [
        [
            f"{row.name}{', iterative' if row.iterative else ''}",
            DATA_SETS[data_set],
            row.bleu,
            row.speedup.replace("-", MISSING),
        ]
        for row in published(data_set)
    ]
    notes = [
        "All but ours are other data, as printed: tokenised BLEU, speedups on other machines."
        " NPD, LPD: the best of n candidates."
    ]
    caption = f"Beside what the paper prints for {DATA_SETS[data_set]} (Tables 2 and 6)"
    return Table(caption, ["System", "Data", "BLEU", "Speedup"], [*ours, *theirs], n_labels=2, notes=notes)


def _side_by_side(columns: tuple[str, ...], ours: Figures, paper: Figures) -> list[str]:
    return [number(side.get(column), _DIGITS[column]) for column in columns for side in (ours, paper)]
