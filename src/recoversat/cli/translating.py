"""Verbs that use models: translate, merge, score, export, shortlist, serve."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recoversat.cli.app import app, verb
from recoversat.errors import UserError
from recoversat.pipeline.options import Device, From, Model, To, TranslateOptions
from recoversat.serve.settings import ServeSettings


class ExportFormat(StrEnum):
    recoversat = "recoversat"
    ctranslate2 = "ctranslate2"


@verb(TranslateOptions, "Example: `echo 'Two dogs run.' | recoversat translate --from en --to de --show segments`")
def translate(asked: TranslateOptions) -> None:
    """Translate text line by line, one line out for each line in, or files in their own formats."""
    from recoversat.pipeline import translate_command

    if asked.is_shared:
        _tell_outputs(translate_command.translate_shared(asked))
        return
    try:
        errors = translate_command.translate(asked.at_terminal())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    _exit_for_records(errors)


@app.command(epilog="Example: `recoversat merge FOLDER`, after `recoversat translate ... --out FOLDER --shard i/n`")
def merge(folder: Annotated[Path, typer.Argument(help="Folder that `translate --shard` wrote to.")]) -> None:
    """Join the shards of a run, in the order of the input, or say which are missing."""
    from recoversat.cluster import run
    from recoversat.cluster.manifest import read_manifest

    _tell_outputs(run.merge(read_manifest(folder.resolve())))


def _tell_outputs(outputs: dict[Path, int]) -> None:
    """Name what was written, and how many records could not be translated."""
    for path in outputs:
        typer.echo(path, err=True)
    _exit_for_records(sum(outputs.values()))


def _exit_for_records(errors: int) -> None:
    if errors:
        typer.echo(f'error: {errors:,} records could not be translated; they have an "error" instead', err=True)
        raise typer.Exit(1)


@app.command(epilog="Example: `recoversat score --from en --to de --src test.en --tgt test.de`")
def score(
    src: Annotated[Path, typer.Option(help="Source text.")],
    tgt: Annotated[Path, typer.Option(help="Target text, aligned line by line.")],
    model: Model = None,
    source: From = None,
    target: To = None,
    segments: Annotated[int, typer.Option(min=1, help="Score as so many equal segments.")] = 1,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Each token's log-probability too.")] = False,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each given translation."""
    from recoversat.pipeline.score_files import score_lines

    for line in score_lines(
        model, src, tgt, segments=segments, jsonl=jsonl, device=device, source=source, target=target
    ):
        typer.echo(line)


@app.command(epilog="Example: `recoversat export run exported --corpus corpus`")
def export(
    model: Annotated[Path, typer.Argument(help="Model folder or training run.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write; translates without torch.")],
    precision: Annotated[list[str] | None, typer.Option(help="int8, fp32; both without any.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Corpus whose validation text gives int8 its scales.")] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Instead: validation source.")] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Instead: validation target.")] = None,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Make a shortlist from the corpus: faster, the same words.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT; keep it whatever the checks say.")] = False,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="ctranslate2: a teacher for that engine, to compare with.")
    ] = ExportFormat.recoversat,
) -> None:
    """Write a model for fast translation on CPUs (int8 and fp32), checked against the original.

    A folder that was exported by an older version is converted.
    """
    try:
        from recoversat.data.prepare import optional_pairs
        from recoversat.export import folder as exporting
        from recoversat.export import old_folder
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[train]'") from None
    if old_folder.is_old(model):
        typer.echo(old_folder.convert(model, out, force), err=True)
        return
    valid = exporting.validation_text(model, corpus, optional_pairs(valid_src, valid_tgt, "--valid"))
    precisions = exporting.precisions_of(precision, model)
    if shortlist and (not corpus or format_ is ExportFormat.ctranslate2 or "int8" not in precisions):
        raise UserError("--shortlist is made from --corpus, for int8; later: recoversat shortlist OUT")
    if format_ is ExportFormat.ctranslate2:
        from recoversat.export.ctranslate2 import export_ctranslate2

        typer.echo(export_ctranslate2(model, out, precisions if precision else (), valid, force=force), err=True)
        return
    pairs_from = corpus if shortlist else None
    report = exporting.export_folder(model, out, precisions, valid, force=force, pairs_from=pairs_from)
    typer.echo(report.as_text(), err=True)


@app.command(epilog="Example: `recoversat shortlist exported --src train.en --tgt train.de`")
def shortlist(
    model: Annotated[Path, typer.Argument(help="Folder written by `export`; gets the list.")],
    corpus: Annotated[Path | None, typer.Option(help="Corpus it was trained on, best its distilled one.")] = None,
    src: Annotated[Path | None, typer.Option(help="Instead: source text, one sentence a line.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="And its translations, best the model's own.")] = None,
    likeliest: Annotated[int, typer.Option(min=1, help="Pieces that each source piece may become.")] = 100,
    frequent: Annotated[int, typer.Option(min=1, help="Most frequent pieces that are in every list.")] = 1000,
) -> None:
    """Give an exported model a shortlist: steps choose among pieces that a source can become, which is faster."""
    try:
        from recoversat.data.prepare import optional_pairs
        from recoversat.export.shortlist import add_shortlist, pairs_of
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[train]'") from None
    pairs = pairs_of(model, corpus, optional_pairs(src, tgt, "-"))
    typer.echo(add_shortlist(model, pairs, likeliest, frequent).as_text(), err=True)


@verb(ServeSettings, "Example: `recoversat serve --model en-de=run --port 5000 --workers 2`")
def serve(settings: ServeSettings) -> None:
    """Serve translations over HTTP, as LibreTranslate does, with a page that shows the decoding."""
    try:
        from recoversat.serve.process.server import serve
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[serve]'") from None
    serve(settings)
