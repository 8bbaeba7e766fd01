"""Verbs that measure models: evaluate, sweep."""

from pathlib import Path
from typing import Annotated

import typer

from recoversat.cli.app import Device, NoRepairs, Preset, Set, app
from recoversat.errors import UserError


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
    latency: Annotated[int, typer.Option(min=0, help="Time so many sentences at batch 1.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences translated together.")] = 32,
    subwords: Annotated[
        Path | None, typer.Option(help="Model in whose sub-words Rep and Mis are counted; by default --at's.")
    ] = None,
    no_repairs: NoRepairs = False,
    device: Device = "auto",
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
        request, lambda results: [published_table(paper, results, at or baseline)] if paper else []
    )
    typer.echo(evaluated.as_text())
    typer.echo(f"report: {evaluated.page}", err=True)


@app.command(
    epilog="Example: `recoversat sweep configs/ablations.yaml --corpus distilled --init-from teacher --at teacher "
    "--jobs 2 --out ablations`"
)
def sweep(
    file: Annotated[Path, typer.Argument(help="YAML file: a config and what varies over it (docs/evaluation.md).")],
    out: Annotated[Path, typer.Option(help="Folder of all runs and the report; interrupted, it is continued.")],
    corpus: Annotated[Path | None, typer.Option(help="Folder to train on.")] = None,
    init_from: Annotated[
        Path | None, typer.Option(help="Teacher whose encoder and embeddings all runs start from.")
    ] = None,
    init_decoder: Annotated[bool, typer.Option("--init-decoder", help="Start from the teacher's decoder too.")] = False,
    at: Annotated[str | None, typer.Option(help="Model that Rep and Mis are relative to.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="NAME=SOURCES,REFERENCES; else validation text.")] = None,
    system: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH: measure this one too; NAT fills the tables' NAT row.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trainings at the same time, on one GPU too.")] = 1,
    latency: Annotated[int, typer.Option(min=0, help="Time so many sentences at batch 1.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences translated together.")] = 32,
    preset: Preset = None,
    set_: Set = None,
    device: Device = "auto",
) -> None:
    """Train and evaluate variants of one configuration; print the paper's ablation tables beside ours."""
    from recoversat.measuring.specs import parse_system, parse_test
    from recoversat.pipeline.sweep.run import SweepOptions, run_sweep

    systems, tests = [parse_system(text) for text in system or ()], [parse_test(text) for text in test or ()]
    options = SweepOptions(
        corpus, init_from, init_decoder, at, systems, tests, preset, set_ or (), jobs, device, latency, batch_size
    )
    swept = run_sweep(file, out, options, lambda line: typer.echo(line, err=True))
    if swept.evaluated:
        typer.echo(swept.evaluated.as_text())
        typer.echo(f"report: {swept.evaluated.page}", err=True)
    if swept.failed:
        raise UserError("\n".join(f"{name} failed:\n{why}" for name, why in swept.failed.items()))
