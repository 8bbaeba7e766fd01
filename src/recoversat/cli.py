"""The `recoversat` command: one small function a verb, no logic; imports happen inside, so help is instant."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recoversat.errors import UserError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Semi-autoregressive machine translation: all segments of a sentence written at the same time.",
)


class Format(StrEnum):
    """How `translate` reads its input."""

    lines = "lines"
    text = "text"
    html = "html"


ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file of settings.", show_default=False)]
Preset = Annotated[
    str | None, typer.Option(help="Start from: iwslt16, wmt14, wmt16, small, deep-shallow.", show_default=False)
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value; wins over --config.", show_default=False)
]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is already there.")]
ModelPath = Annotated[Path, typer.Option("--model", help="Model folder or training run.")]
Segments = Annotated[int | None, typer.Option("--segments", help="K; the model's own by default.", show_default=False)]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from recoversat import __version__

        typer.echo(f"recoversat {__version__}")
        raise typer.Exit


@app.command(
    epilog="Example: `recoversat prepare --src train.en --tgt train.de --out corpus --preset small --hold-out 500`"
)
def prepare(
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    src: Annotated[
        Path | None, typer.Option(help="Source text, one sentence a line (.gz, .xz too).", show_default=False)
    ] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target text, aligned line by line.", show_default=False)] = None,
    tsv: Annotated[Path | None, typer.Option(help="Instead of both: source<TAB>target.", show_default=False)] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Validation source.", show_default=False)] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Validation target.", show_default=False)] = None,
    hold_out: Annotated[int, typer.Option(help="Without validation files: keep so many pairs for validation.")] = 0,
    tokenizer_from: Annotated[
        Path | None, typer.Option(help="Use the tokenizer of this folder.", show_default=False)
    ] = None,
    config: ConfigFile = None,
    preset: Preset = None,
    set_: Set = None,
    force: Force = False,
) -> None:
    """Turn two text files into a corpus ready for training: tokenised, filtered, memory-mapped."""
    from recoversat.config import load_config
    from recoversat.data import prepare as preparing

    settings = load_config(config, preset, set_)
    valid = _optional_pairs(valid_src, valid_tgt, "--valid")
    report = preparing.prepare(
        _pairs(src, tgt, tsv), out, settings.data, valid=valid, hold_out=hold_out,
        tokenizer_from=tokenizer_from, replace=force,
    )  # fmt: skip
    typer.echo(report.as_text(), err=True)


@app.command(epilog="Example: `recoversat train corpus --out run --preset small --set train.segments=5`")
def train(
    corpus: Annotated[Path, typer.Argument(help="Folder written by `prepare` or `distill`.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one is continued.")],
    init_from: Annotated[
        Path | None, typer.Option(help="Teacher whose encoder and embeddings to start from.", show_default=False)
    ] = None,
    init_decoder: Annotated[bool, typer.Option("--init-decoder", help="Start from the teacher's decoder too.")] = False,
    config: ConfigFile = None,
    preset: Preset = None,
    set_: Set = None,
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Train a RecoverSAT (or, with train.segments=1, an autoregressive teacher); several processes with torchrun."""
    from recoversat.config import load_config
    from recoversat.data.corpus import open_corpus
    from recoversat.evaluation.validation import bleu_validator
    from recoversat.training.loop import start_point, train

    settings, data = load_config(config, preset, set_), open_corpus(corpus)
    state = train(
        settings, data, out, validate=bleu_validator(data, settings),
        start_from=start_point(init_from, init_decoder), device=device, force=force,
    )  # fmt: skip
    best = f", best validation BLEU {state.best_bleu:.2f} at {state.best_update}" if state.best_bleu is not None else ""
    typer.echo(f"trained {state.update} updates{best}: {out}", err=True)


@app.command(epilog="Example: `echo 'Two dogs run.' | recoversat translate --model run --segments 5 --show segments`")
def translate(
    model: ModelPath,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files; standard input without any.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead of standard output.", show_default=False)] = None,
    segments: Segments = None,
    batch_size: Annotated[int, typer.Option(help="Sentences translated together.")] = 32,
    jsonl: Annotated[bool, typer.Option("--jsonl", help='Lines are {"text": ...}; "translation" is added.')] = False,
    beam: Annotated[int, typer.Option(min=1, help="Beam size, where K is 1; 1 = greedy.")] = 1,
    show: Annotated[str | None, typer.Option(help="segments: number them, mark DEL.", show_default=False)] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write each decoding step here, as JSON lines.", show_default=False)
    ] = None,
    force_words: Annotated[
        list[str] | None,
        typer.Option("--force", help="SEGMENT:POSITION=WORDS must stand there, e.g. '6:1=the'.", show_default=False),
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="lines: one each; text: split into sentences; html: tags kept.")
    ] = Format.lines,
    teacher: Annotated[
        Path | None, typer.Option(help="Of a one-step model: teacher that judges its candidates.", show_default=False)
    ] = None,
    lengths: Annotated[int, typer.Option(min=1, help="With --teacher: candidates of different length.")] = 9,
    device: Device = "auto",
    compute_type: Annotated[str, typer.Option(help="int8 or float32; default: int8 where exported.")] = "default",
    threads: Annotated[int, typer.Option(min=0, help="Processor cores used; 0 = all.")] = 0,
    max_memory: Annotated[
        str | None, typer.Option(help="Of an exported model: bound beside weights, e.g. 500M.", show_default=False)
    ] = None,
) -> None:
    """Translate text line by line: one line out for each line in."""
    from recoversat.serve.settings import parse_size
    from recoversat.show_files import Inspection, show_lines
    from recoversat.translate_files import translate_lines, translate_whole
    from recoversat.translator import Translator

    inspection = Inspection.of(show, trace, force_words, jsonl=jsonl)
    translator = Translator(
        model, device=device, compute_type=compute_type, intra_threads=threads,  # type: ignore[arg-type]
        max_memory=parse_size(max_memory) if max_memory else None,
    )  # fmt: skip
    if teacher:
        translator.judged_by(teacher, lengths, device)
    if format_ is not Format.lines:
        if inspection or jsonl:
            raise UserError("--format text and html go without --show, --trace, --force and --jsonl")
        translate_whole(
            translator,
            files or [],
            out,
            format="html" if format_ is Format.html else "text",
            segments=segments,
            batch_size=batch_size,
            beam=beam,
        )
    elif inspection:
        show_lines(translator, files or [], out, inspection, segments=segments, batch_size=batch_size, beam=beam)
    else:
        translate_lines(translator, files or [], out, segments=segments, batch_size=batch_size, jsonl=jsonl, beam=beam)


@app.command(
    epilog="Example: `recoversat evaluate --system at=teacher --system k5=student:segments=5 --system other=out.de "
    "--test ted=tst2014.en,tst2014.de --at at --baseline at --out report`"
)
def evaluate(
    system: Annotated[
        list[str],
        typer.Option(help="NAME=PATH: a model, with :segments=K or :beam=N; or its translations, one a line."),
    ],
    test: Annotated[list[str], typer.Option(help="NAME=SOURCES,REFERENCES; {test} in a PATH stands for NAME.")],
    out: Annotated[Path, typer.Option(help="Folder of the report and of what the models wrote.")],
    at: Annotated[str | None, typer.Option(help="Rep and Mis relative to this system.", show_default=False)] = None,
    baseline: Annotated[str | None, typer.Option(help="Bootstrap against this one.", show_default=False)] = None,
    samples: Annotated[int, typer.Option(min=1, help="Resamples of the paired bootstrap.")] = 1000,
    tokenize: Annotated[str | None, typer.Option(help="sacreBLEU's: zh, ja-mecab, ...", show_default=False)] = None,
    tokenised: Annotated[bool, typer.Option("--tokenised", help="Tokenised BLEU too, as in the paper.")] = False,
    latency: Annotated[int, typer.Option(min=0, help="Time so many sentences at batch 1.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences translated together.")] = 32,
    device: Device = "auto",
) -> None:
    """Measure systems on test sets: BLEU, chrF, TER, Rep, Mis, Step, confidence; one table, JSON, HTML, plots."""
    from recoversat.evaluation.results import EvaluationPlan
    from recoversat.evaluation.run import Request, run_evaluation
    from recoversat.evaluation.specs import parse_system, parse_test

    plan = EvaluationPlan(at, baseline, samples, tokenize, tokenised)
    systems, tests = [parse_system(text) for text in system], [parse_test(text) for text in test]
    evaluated = run_evaluation(Request(systems, tests, out, plan, batch_size, device, latency))
    typer.echo(evaluated.as_text())
    typer.echo(f"report: {evaluated.files.html}", err=True)


@app.command(
    epilog="Example: `recoversat sweep configs/ablation-q.yaml --corpus distilled --init-from teacher --at teacher "
    "--jobs 2 --out ablation-q`"
)
def sweep(
    file: Annotated[Path, typer.Argument(help="YAML file: a config and what varies over it (docs/evaluation.md).")],
    out: Annotated[Path, typer.Option(help="Folder of all runs and the report; interrupted, it is continued.")],
    corpus: Annotated[Path | None, typer.Option(help="Folder to train on.", show_default=False)] = None,
    init_from: Annotated[Path | None, typer.Option(help="Teacher all runs start from.", show_default=False)] = None,
    at: Annotated[str | None, typer.Option(help="Model that Rep and Mis are relative to.", show_default=False)] = None,
    test: Annotated[
        list[str] | None, typer.Option(help="NAME=SOURCES,REFERENCES; else validation text.", show_default=False)
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trainings at the same time.")] = 1,
    latency: Annotated[int, typer.Option(min=0, help="Time so many sentences at batch 1.")] = 0,
    preset: Preset = None,
    set_: Set = None,
    device: Device = "auto",
) -> None:
    """Train and evaluate variants of one configuration; print the paper's ablation tables beside ours."""
    from recoversat.evaluation.specs import parse_test
    from recoversat.sweep.run import SweepOptions, run_sweep

    options = SweepOptions(
        corpus, init_from, at, [parse_test(text) for text in test or ()], preset, set_ or (), jobs, device, latency
    )
    swept = run_sweep(file, out, options, lambda line: typer.echo(line, err=True))
    if swept.evaluated:
        typer.echo(swept.evaluated.as_text())
        typer.echo(f"report: {swept.evaluated.files.html}", err=True)
    if swept.failed:
        raise UserError("\n".join(f"{name} failed:\n{why}" for name, why in swept.failed.items()))


@app.command(epilog="Example: `recoversat distill teacher corpus --out distilled --beam 4`")
def distill(
    teacher: Annotated[Path, typer.Argument(help="Autoregressive model: folder or training run.")],
    corpus: Annotated[Path, typer.Argument(help="Prepared corpus whose training side it translates.")],
    out: Annotated[Path, typer.Option(help="Corpus folder to write.")],
    beam: Annotated[int, typer.Option(min=1, help="Beam size; 1 = greedy.")] = 4,
    shard_size: Annotated[int, typer.Option(min=1, help="Sentences a shard; a kill loses at most one.")] = 10_000,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source tokens translated together.")] = 4096,
    device: Device = "auto",
) -> None:
    """Translate the training text with a teacher, resumably; several processes share the work with torchrun."""
    import os

    from recoversat import distill as distilling

    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    job = distilling.Distillation(teacher, corpus, out, beam, shard_size, batch_tokens, device, rank, world)
    for key, value in distilling.distill(job).items():
        typer.echo(f"{key.replace('_', ' ')}: {value}", err=True)


@app.command(epilog="Example: `recoversat score --model teacher --src test.en --tgt test.de`")
def score(
    model: ModelPath,
    src: Annotated[Path, typer.Option(help="Source text.")],
    tgt: Annotated[Path, typer.Option(help="Target text, aligned line by line.")],
    segments: Annotated[int, typer.Option(min=1, help="Score as so many equal segments.")] = 1,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Each token's log-probability too.")] = False,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each given translation, in one parallel pass."""
    from recoversat.score_files import score_lines

    for line in score_lines(model, src, tgt, segments=segments, jsonl=jsonl, device=device):
        typer.echo(line)


@app.command(epilog="Example: `recoversat fit --src train.en --tgt train.de --out model --segments 5`")
def fit(
    src: Annotated[Path, typer.Option(help="Source text, one sentence a line (.gz, .xz too).")],
    tgt: Annotated[Path, typer.Option(help="Target text, aligned line by line.")],
    out: Annotated[Path, typer.Option(help="Folder for everything; an interrupted one is continued.")],
    valid_src: Annotated[Path | None, typer.Option(help="Validation source.", show_default=False)] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Validation target.", show_default=False)] = None,
    test_src: Annotated[Path | None, typer.Option(help="Test source, for the report.", show_default=False)] = None,
    test_tgt: Annotated[Path | None, typer.Option(help="Test target, for the report.", show_default=False)] = None,
    segments: Annotated[int, typer.Option("--segments", min=1, help="K of the student.")] = 10,
    config: ConfigFile = None,
    preset: Preset = None,
    set_: Set = None,
    teacher_set: Annotated[
        list[str] | None, typer.Option(help="section.key=value for the teacher alone.", show_default=False)
    ] = None,
    device: Device = "auto",
    force: Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
) -> None:
    """Go the whole road from two text files to an evaluated RecoverSAT; resumable at every point."""
    from recoversat.fit import fit as run_fit
    from recoversat.fit_defaults import fit_job

    job = fit_job(
        _pairs(src, tgt, None), out, _optional_pairs(valid_src, valid_tgt, "--valid"),
        _optional_pairs(test_src, test_tgt, "--test"), segments, config, preset, set_ or [], teacher_set or [], device,
    )  # fmt: skip
    run_fit(job, force=force, dry_run=dry_run)


@app.command(epilog="Example: `recoversat average run --last 5 --out averaged`")
def average(
    models: Annotated[list[Path], typer.Argument(help="Model folders, or one training run.")],
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    last: Annotated[int, typer.Option(help="Of a training run: its newest so many checkpoints.")] = 5,
    force: Force = False,
) -> None:
    """Average the weights of several checkpoints into one model."""
    from recoversat.model_folder import checkpoint_folders
    from recoversat.training.checkpoint import average_models

    if out.exists() and not force:
        raise UserError(f"{out} exists already; choose another folder or add --force to replace it")
    chosen = [c for path in models for c in (checkpoint_folders(path)[-last:] or [path])]
    average_models(chosen, out, replace=force)
    typer.echo(f"averaged {', '.join(path.name for path in chosen)}: {out}", err=True)


@app.command(epilog="Example: `recoversat export run exported --corpus corpus`")
def export(
    model: Annotated[Path, typer.Argument(help="Model folder or training run.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write; translates without torch.")],
    precision: Annotated[
        list[str] | None, typer.Option(help="int8, fp32; both without any.", show_default=False)
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Corpus whose validation text shows what int8 costs.", show_default=False)
    ] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Instead: validation source.", show_default=False)] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Instead: validation target.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT; keep it whatever the checks say.")] = False,
) -> None:
    """Write a model for fast translation on CPUs (ONNX, int8 and fp32), checked against the original."""
    try:
        from recoversat import export_folder as exporting
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[train]'") from None
    valid = exporting.validation_text(model, corpus, _optional_pairs(valid_src, valid_tgt, "--valid"))
    report = exporting.export_folder(model, out, exporting.precisions_of(precision), valid, force=force)
    typer.echo(report.as_text(), err=True)


@app.command(epilog="Example: `recoversat serve --model en-de=run --port 5000 --workers 2`")
def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(help="en-de=FOLDER, or FOLDER; several times for several pairs.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 5000,
    workers: Annotated[int, typer.Option(help="Processes; each loads the models.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Processor cores a worker decodes with.", min=1)] = 1,
    max_memory: Annotated[str | None, typer.Option(help="For all workers, e.g. 2G.", show_default=False)] = None,
    batch_size: Annotated[int, typer.Option(help="Texts translated together; 1 = each alone.", min=1)] = 32,
    batch_window: Annotated[float, typer.Option(help="Milliseconds a request waits for company.", min=0)] = 4.0,
    queue_size: Annotated[int, typer.Option(help="Texts waiting in a worker before 503.", min=1)] = 512,
    char_limit: Annotated[int, typer.Option(help="Characters a request.", min=1)] = 10_000,
    text_limit: Annotated[int, typer.Option(help="Texts a request.", min=1)] = 100,
    timeout: Annotated[float, typer.Option(help="Seconds after which a request is given up.", min=0.001)] = 30.0,
    api_keys: Annotated[Path | None, typer.Option(help="File of API keys, one a line.", show_default=False)] = None,
    rate_limit: Annotated[
        int | None, typer.Option(help="Requests a minute for each key or address.", min=1, show_default=False)
    ] = None,
    trusted_proxy: Annotated[
        str | None, typer.Option(help="Proxy whose X-Forwarded-For is believed.", show_default=False)
    ] = None,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write users' texts to the log.")] = False,
    device: Device = "cpu",
    compute_type: Annotated[str, typer.Option(help="int8 or float32; default: int8 where exported.")] = "default",
) -> None:
    """Serve translations over HTTP, as LibreTranslate does, with a page that shows the decoding."""
    from recoversat.serve.settings import ServeSettings, parse_size

    settings = ServeSettings(
        models=tuple(model or ()), host=host, port=port, workers=workers, threads=threads, device=device,
        compute_type=compute_type, max_memory=parse_size(max_memory) if max_memory else None, batch_size=batch_size,
        batch_window=batch_window / 1000, queue_size=queue_size, char_limit=char_limit, text_limit=text_limit,
        timeout=timeout, api_keys=api_keys, rate_limit=rate_limit, trusted_proxy=trusted_proxy, log_text=log_text,
    )  # fmt: skip
    try:
        from recoversat.serve.supervisor import serve
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[serve]'") from None
    serve(settings)


def _pairs(src: Path | None, tgt: Path | None, tsv: Path | None):  # type: ignore[no-untyped-def]
    from recoversat.data.prepare import TextPairs

    if tsv and not (src or tgt):
        return TextPairs(tsv)
    if src and tgt and not tsv:
        return TextPairs(src, tgt)
    raise UserError("give either --src and --tgt, or --tsv")


def _optional_pairs(src: Path | None, tgt: Path | None, name: str):  # type: ignore[no-untyped-def]
    if bool(src) != bool(tgt):
        raise UserError(f"give {name}-src and {name}-tgt together")
    return _pairs(src, tgt, None) if src and tgt else None


def main() -> None:
    """Run the command; a user's mistake gets one clear line, not a traceback."""
    try:
        app()
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # `recoversat translate ... | head`
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # a full disk, a folder that may not be written
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
