"""`recoversat evaluate`, start to end: several systems on several test sets become one report.

What a model wrote is kept under OUT/outputs and used again when nothing about it has changed, so that an
evaluation that was interrupted, or is repeated with one more system, does not start over.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from recoversat.errors import UserError
from recoversat.measuring.own import load_system
from recoversat.measuring.quality.length_buckets import length_table
from recoversat.measuring.quality.metrics import METRICS, chosen_metrics
from recoversat.measuring.quality.outputs import SystemOutput, TestSet, read_output, read_saved
from recoversat.measuring.quality.plots import LearningCurve, learning_plots, quality_plots
from recoversat.measuring.quality.report import write_report
from recoversat.measuring.quality.results import EvaluationPlan, Result, evaluate
from recoversat.measuring.quality.subwords import Subwords
from recoversat.measuring.quality.tables import confidence_table, results_table
from recoversat.measuring.quality.translating import ModelOutputs
from recoversat.measuring.reports.plots import Plot
from recoversat.measuring.reports.table import Table, TableFormat, written
from recoversat.measuring.specs import SystemSpec, TestSpec, check_evaluation

Tables = Callable[[Sequence[Result], Sequence[TestSet]], list[Table]]


@dataclass(frozen=True)
class Request:
    systems: list[SystemSpec]
    tests: list[TestSpec]
    out: Path
    plan: EvaluationPlan = field(default_factory=EvaluationPlan)
    batch_size: int = 32
    device: str = "auto"
    latency: int = 0  # sentences to time at batch 1
    subwords: Path | None = None  # model whose sub-words count, where no system is one
    title: str = "Evaluation"
    curves: Mapping[str, LearningCurve] = field(default_factory=dict)  # of trainings that the report tells of


@dataclass(frozen=True)
class Evaluated:
    """The results, the tables that were added to them and where the report lies."""

    results: list[Result]
    tables: list[Table]
    page: Path  # the HTML

    def as_text(self, form: TableFormat = TableFormat.MARKDOWN) -> str:
        """Show the tables a person wants to see at once."""
        shown = [results_table(self.results), confidence_table(self.results), *self.tables]
        return "\n".join(written(table, form) for table in shown if table)


def run_evaluation(request: Request, tables: Tables = lambda results, test_sets: []) -> Evaluated:
    """Translate what is not translated yet, measure, and write the report."""
    plan = request.plan
    metrics = chosen_metrics(plan.more_metrics, plan.tokenize)
    check_evaluation(request.systems, request.tests, {"--at": plan.at_system, "--baseline": plan.baseline})
    subwords = Subwords.of(request.systems, plan.at_system, request.subwords)
    if not subwords.is_split_text and (wrong := [key for key in metrics if METRICS[key].tokenised]):
        raise UserError(f"{wrong[0]}: these systems do not write tokenised text ('@@ ' data); leave it out")
    test_sets = [subwords.read_test_set(spec) for spec in request.tests]
    outputs = [subwords.align(output) for spec in request.systems for output in _outputs_of(spec, test_sets, request)]
    results = evaluate(outputs, test_sets, plan)
    extra = tables(results, test_sets)
    plots: list[Plot] = []
    if find_spec("matplotlib"):
        plots = [*quality_plots(results, test_sets), *learning_plots(request.curves)]
    else:
        print("no plots: they need matplotlib (pip install 'recoversat[train]')", file=sys.stderr)
    by_length = [length_table([one.output for one in results], test_set, plan.at_system) for test_set in test_sets]
    shown = [*extra, *(table for table in by_length if table)]
    page = write_report(request.out, results, plots=plots, tables=shown, title=request.title)
    return Evaluated(results, extra, page)


def _outputs_of(spec: SystemSpec, test_sets: Sequence[TestSet], request: Request) -> Iterator[SystemOutput]:
    if spec.kind == "model":
        system = load_system(spec, request.device, spec.threads or 0)
        evaluated = ModelOutputs(spec.name, system, request.batch_size, request.out / "outputs")
        for test_set in test_sets:
            yield evaluated.on(test_set, request.latency)
        return
    for test_set in test_sets:
        path = spec.file_for(test_set.name)
        saved = path.suffix == ".jsonl"
        yield read_saved(path, test_set, spec.name) if saved else read_output(spec.name, test_set, path)
