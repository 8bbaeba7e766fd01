"""Verbs that measure models: evaluate, calibrate, sweep, bench."""

from pathlib import Path
from typing import Annotated

import typer

from recoversat.cli.app import app, verb
from recoversat.errors import UserError
from recoversat.measuring.reports.table import TableFormat
from recoversat.pipeline import options


@app.command(
    epilog="Example: `recoversat evaluate --system at=teacher --system k5=student:segments=5 --system other=out.de "
    "--test ted=tst2014.en,tst2014.de --at at --baseline at --out report`"
)
def evaluate(
    system: Annotated[
        list[str],
        typer.Option(
            help="NAME=PATH: a model, with :segments=K (or auto), :beam=N, :to=LANGUAGE, :repairs=none, ...; "
            "or translations, one a line."
        ),
    ],
    test: Annotated[list[str], typer.Option(help="NAME=SOURCES,REFERENCES; {test} in a PATH stands for NAME.")],
    out: Annotated[Path, typer.Option(help="Folder of the report and of what the models wrote.")],
    at: Annotated[str | None, typer.Option(help="Rep and Mis relative to this system.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Bootstrap against this one.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Resamples of the paired bootstrap.")] = 1000,
    tokenize: Annotated[str | None, typer.Option(help="sacreBLEU's: zh, ja-mecab, ...")] = None,
    tokenised: Annotated[bool, typer.Option("--tokenised", help="Tokenised BLEU too, as in the paper.")] = False,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Add the paper's figures: iwslt16.en-de, wmt14.en-de, wmt14.de-en, wmt16.en-ro, wmt16.ro-en."
        ),
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="One metric more; a wrong name lists them all.")] = None,
    latency: options.Latency = 0,
    batch_size: options.BatchSize = 32,
    subwords: Annotated[
        Path | None, typer.Option(help="Model in whose sub-words Rep and Mis are counted; by default --at's.")
    ] = None,
    no_repairs: options.NoRepairs = False,
    form: options.Form = TableFormat.MARKDOWN,
    device: options.Device = "auto",
) -> None:
    """Measure systems on test sets: BLEU, chrF, TER, Rep, Mis, Step, confidence; one table, JSON, HTML, plots."""
    from recoversat.measuring.quality.paper import check_data_set, published_table
    from recoversat.measuring.quality.results import EvaluationPlan
    from recoversat.measuring.quality.run import Request, run_evaluation
    from recoversat.measuring.specs import parse_system, parse_test, without_repairs

    if paper:
        check_data_set(paper)
    plan = EvaluationPlan(at, baseline, samples, tokenize, [*(metric or ()), *["tokenised_bleu"] * tokenised])
    systems, tests = [parse_system(text) for text in system], [parse_test(text) for text in test]
    systems = without_repairs(systems) if no_repairs else systems
    request = Request(systems, tests, out, plan, batch_size, device, latency, subwords)
    evaluated = run_evaluation(
        request, lambda results, _: [published_table(paper, results, at or baseline)] if paper else []
    )
    typer.echo(evaluated.as_text(form))
    typer.echo(f"report: {evaluated.page}", err=True)


@app.command(epilog="Example: `recoversat calibrate --model run --src valid.en --tgt valid.de`")
def calibrate(
    src: Annotated[Path, typer.Option(help="Text that the model was not trained on.")],
    tgt: Annotated[Path, typer.Option(help="Its translations, aligned line by line.")],
    model: options.Model = None,
    source: options.From = None,
    target: options.To = None,
    chrf: Annotated[
        float, typer.Option(help="A translation is good from so much chrF2++ on; below 30 most are wrong.")
    ] = 30.0,
    device: options.Device = "auto",
) -> None:
    """Make a model's confidence the probability of a good translation; kept in its folder (docs/decoding.md)."""
    from recoversat.data.prepare import TextPairs
    from recoversat.files.model_folder import model_folder
    from recoversat.measuring.quality.calibration import calibrate, keep
    from recoversat.measuring.reports.table import to_markdown
    from recoversat.translator import Translator

    if not 0 < chrf < 100:
        raise UserError(f"--chrf {chrf:g}: chrF2++ is between 0 and 100; 30 to 50 is usual")
    folder = model_folder(model, source, target)
    translator = Translator(folder, source=source, target=target, device=device)
    if 1 not in translator.config.train.segment_choices:
        raise UserError(f"{folder}: confidence needs a model that was trained for K = 1 too; this one was not")
    pairs = list(TextPairs(src, tgt))
    curve, table = calibrate(translator, [one for one, _ in pairs], [other for _, other in pairs], chrf)
    path = keep(folder, f"{translator.source}-{translator.target}", curve, chrf)
    typer.echo(to_markdown(table))
    typer.echo(f"written to {path}", err=True)


@verb(
    options.SweepOptions,
    "Example: `recoversat sweep configs/ablations.yaml --corpus distilled --init-from teacher --at teacher "
    "--jobs 2 --out ablations`",
)
def sweep(asked: options.SweepOptions) -> None:
    """Train and evaluate variants of one configuration; print the paper's ablation tables beside ours."""
    from recoversat.pipeline.sweep.run import run_sweep

    evaluated, failed = run_sweep(asked, lambda line: typer.echo(line, err=True))
    if evaluated:
        typer.echo(evaluated.as_text(asked.form))
        typer.echo(f"report: {evaluated.page}", err=True)
    if failed:
        raise UserError("\n".join(f"{name} failed:\n{why}" for name, why in failed.items()))


@verb(
    options.BenchOptions,
    "Example: `recoversat bench --system at=exported:segments=1 --system k10=exported:segments=10 --system "
    "peer=ct2:beam=4 --src test.en --ref test.de --out bench`, or `recoversat bench --untrained wmt14 --out b`",
)
def bench(asked: options.BenchOptions) -> None:
    """Time systems in turn on the same sentences, CTranslate2 among them: latency, throughput, memory, ratios."""
    from recoversat.measuring.specs import builtin_systems, parse_system, without_repairs
    from recoversat.measuring.speed.report import report_text
    from recoversat.measuring.speed.run import bench_text, bench_untrained

    if asked.untrained:
        if asked.systems or asked.src or asked.ref:
            raise UserError("--untrained makes its own models and sentences: leave out --system, --src and --ref")
        result = bench_untrained(asked)
    elif asked.src:
        systems = [parse_system(text) for text in asked.systems] or builtin_systems(asked.to)
        result = bench_text(without_repairs(systems) if asked.no_repairs else systems, asked.src, asked)
    else:
        raise UserError(
            "nothing to time: give --src FILE and --system NAME=MODEL (several times, or none for the built-in model), "
            "or --untrained wmt14 for models of a size that were never trained"
        )
    typer.echo(report_text(result, asked.form))
    typer.echo(f"written to {asked.out}", err=True)
