"""The paper's own figures, and tables that set ours beside them.

They lie beside this file as published/*.tsv: Tables 3 and 4, and Table 6 (Appendix B), of which Table 2 is a part
(there FlowSeq is FlowSeq-large, CMLM is CMLM-base). The paper scores tokenised text; ours is sacreBLEU on detokenised
text unless the caption says otherwise.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recoversat.errors import UserError
from recoversat.measuring.quality.results import Result
from recoversat.measuring.reports.table import MISSING, Table, number

Figures = Mapping[str, float | None]

_DIGITS = {"BLEU": 2, "Rep": 2, "Mis": 2, "Step": 1, "Speedup": 2}
_DATA_SETS = ("iwslt16.en-de", "wmt14.en-de", "wmt14.de-en", "wmt16.en-ro", "wmt16.ro-en")
DATA_SETS = {key: f"{key.split('.')[0].upper()} {key.split('.')[1].title()}" for key in _DATA_SETS}


@dataclass(frozen=True)
class Study:
    """One of the paper's tables: what varies, and the figures for each value of it."""

    symbol: str
    title: str
    columns: tuple[str, ...]
    rows: dict[str, Figures]


@dataclass(frozen=True)
class Published:
    """One system on one data set; the figures are text, as printed ("<1.5x"), and "-" where there is none."""

    name: str
    iterative: bool
    bleu: str
    speedup: str


def _table(number: int) -> list[dict[str, str]]:
    with open(Path(__file__).parent / "published" / f"table{number}.tsv", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def _ablation(number: int, mechanism: str) -> Study:
    title = f"Table {number}: effect of the {mechanism} mechanism (paper: IWSLT16 En-De test2013, K = 10)"
    rows = _table(number)
    symbol, *columns = rows[0]
    figures: dict[str, Figures] = {row[symbol]: {column: float(row[column]) for column in columns} for row in rows}
    return Study(symbol, title, tuple(columns), figures)


def published(data_set: str) -> list[Published]:
    """List the systems that have a BLEU score on a data set, in the paper's order.

    >>> published("iwslt16.en-de")[-1]
    Published(name='RecoverSAT (K=10)', iterative=False, bleu='29.90', speedup='4.68x')
    """
    speedup = f"{data_set.split('.')[0]} speedup"
    found = (Published(row["system"], row["iterative"] == "yes", row[data_set], row[speedup]) for row in _table(6))
    return [one for one in found if one.bleu != "-"]


def _main(data_set: str) -> Study:
    """Take our model and the Transformer from the paper's main table."""
    title = f"Table 2: quality and speed over K (paper: {DATA_SETS[data_set]}, P40, batch 1)"
    own = {"Transformer": "AT", "RecoverSAT (K=2)": "2", "RecoverSAT (K=5)": "5", "RecoverSAT (K=10)": "10"}
    rows: dict[str, Figures] = {
        own[row.name]: {"BLEU": float(row.bleu), "Speedup": float(row.speedup.rstrip("x"))}
        for row in published(data_set)
        if row.name in own
    }
    return Study("K", title, ("BLEU", "Speedup"), rows)


DYNAMIC_TERMINATION = _ablation(3, "dynamic termination")
SEGMENT_DELETION = _ablation(4, "segment deletion")
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
    rows = []
    for label in labels:
        sides = ours.get(label, {}), study.rows.get(label, {})
        cells = [number(side.get(column), _DIGITS[column]) for column in study.columns for side in sides]
        rows.append([label, *cells])
    note = "The paper's BLEU is on tokenised text, with other data and hardware: compare the trends."
    return Table(study.title, [study.symbol, *heads], rows, notes=[note])


def check_data_set(name: str) -> None:
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
        [row.name + ", iterative" * row.iterative, DATA_SETS[data_set], row.bleu, row.speedup.replace("-", MISSING)]
        for row in published(data_set)
    ]
    notes = [
        "All but ours are other data, as printed: tokenised BLEU, speedups on other machines."
        " NPD, LPD: the best of n candidates."
    ]
    caption = f"Beside what the paper prints for {DATA_SETS[data_set]} (Tables 2 and 6)"
    return Table(caption, ["System", "Data", "BLEU", "Speedup"], [*ours, *theirs], n_labels=2, notes=notes)
