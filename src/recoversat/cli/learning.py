"""Verbs that make models: prepare, train, average, distill, fit, import; and what can be set in them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from recoversat.cli.app import app, verb
from recoversat.errors import UserError
from recoversat.pipeline import options


@app.command(
    epilog="Example: `recoversat prepare --src train.en --tgt train.de --out corpus --preset small --hold-out 500`"
)
def prepare(
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    src: Annotated[Path | None, typer.Option(help="Source text, one sentence a line (.gz, .xz too).")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target text, aligned line by line.")] = None,
    tsv: Annotated[Path | None, typer.Option(help="Instead of both: source, a tab, target.")] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Validation source.")] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Validation target.")] = None,
    hold_out: Annotated[
        int, typer.Option(min=0, help="Without validation files: keep so many pairs for validation.")
    ] = 0,
    tokenizer_from: Annotated[Path | None, typer.Option(help="Use the tokenizer of this folder.")] = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set_: options.Set = None,
    force: options.Force = False,
) -> None:
    """Turn two text files into a corpus ready for training: tokenised, filtered, memory-mapped."""
    from recoversat.config import load_config
    from recoversat.data import prepare as preparing

    settings = load_config(config, preset, set_)
    valid = preparing.optional_pairs(valid_src, valid_tgt, "--valid")
    report = preparing.prepare(
        preparing.text_pairs(src, tgt, tsv), out, settings.data, valid=valid, hold_out=hold_out,
        tokenizer_from=tokenizer_from, replace=force,
    )  # fmt: skip
    typer.echo(report.as_text(), err=True)


@app.command(epilog="Example: `recoversat train corpus --out run --preset small --set train.segments=5`")
def train(
    corpus: Annotated[Path, typer.Argument(help="Folder written by `prepare` or `distill`.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one is continued.")],
    init_from: Annotated[Path | None, typer.Option(help="Teacher whose encoder and embeddings to start from.")] = None,
    init_decoder: options.InitDecoder = False,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set_: options.Set = None,
    device: options.Device = "auto",
    force: options.Force = False,
) -> None:
    """Train a RecoverSAT (or, with train.segments=1, an autoregressive teacher); several processes with torchrun."""
    from recoversat.config import load_config
    from recoversat.data.corpus import open_corpus
    from recoversat.measuring.quality.validation import bleu_validator
    from recoversat.training.loop import start_point, train

    if init_decoder and not init_from:
        raise UserError("--init-decoder starts from a teacher's decoder: add --init-from TEACHER")
    settings, data = load_config(config, preset, set_), open_corpus(corpus)
    if settings.advice:
        typer.echo(f"note: {settings.advice}", err=True)
    state = train(
        settings, data, out, validate=bleu_validator(data, settings),
        start_from=start_point(init_from, init_decoder), device=device, force=force,
    )  # fmt: skip
    best = f", best validation BLEU {state.best_bleu:.2f} at {state.best_update}" if state.best_bleu is not None else ""
    typer.echo(f"trained {state.update} updates{best}: {out}", err=True)


@app.command(epilog="Example: `recoversat average run --last 5 --out averaged`")
def average(
    models: Annotated[list[Path], typer.Argument(help="Model folders, or one training run.")],
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    last: Annotated[int, typer.Option(min=1, help="Of a training run: its newest so many checkpoints.")] = 5,
    force: options.Force = False,
) -> None:
    """Average the weights of several checkpoints into one model."""
    from recoversat.files.model_folder import checkpoint_folders
    from recoversat.files.storage import refuse_existing
    from recoversat.training.checkpoint import average_models

    refuse_existing(out, force)
    chosen = [c for path in models for c in (checkpoint_folders(path)[-last:] or [path])]
    average_models(chosen, out, replace=force)
    typer.echo(f"averaged {', '.join(path.name for path in chosen)}: {out}", err=True)


@verb(options.DistillOptions, "Example: `recoversat distill teacher corpus --out distilled --beam 4`")
def distill(asked: options.DistillOptions) -> None:
    """Translate the training text with a teacher, resumably; several processes share the work with torchrun.

    The text of a second round comes from the student itself: `--best-of 3`.
    """
    import os

    from recoversat.pipeline import distill as distilling

    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    for key, value in distilling.distill(replace(asked, rank=rank, world=world)).items():
        typer.echo(f"{key.replace('_', ' ')}: {value}", err=True)


@verb(options.FitOptions, "Example: `recoversat fit --src train.en --tgt train.de --out model --segments 5`")
def fit(asked: options.FitOptions) -> None:
    """Go the whole road from two text files to an evaluated RecoverSAT; resumable at every point.

    The presets iwslt16, wmt14 and wmt16 mean the paper's recipe: its sizes and learning rates, a student that takes
    only encoder and embeddings from its teacher, nothing repaired in what it writes. Anything else means ours: the
    student takes the teacher's decoder too, and overlaps, loops and empty translations are repaired.
    """
    from recoversat.model.device import torch_device
    from recoversat.pipeline.fit import fit as run_fit
    from recoversat.pipeline.fit_job import fit_job

    torch_device(asked.device)  # before any work: is torch here, and is the device?
    run_fit(fit_job(asked), force=asked.force, dry_run=asked.dry_run)


@app.command("import", epilog="Example: `recoversat import opus-mt-en-fr teacher`")
def import_(
    folder: Annotated[Path, typer.Argument(help="Folder of a MarianMT model of Hugging Face, e.g. of OPUS-MT.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write: an autoregressive teacher.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Source language; by default what the folder says.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", help="Target language; by default what the folder says.")
    ] = None,
    target_token: Annotated[
        str | None, typer.Option(help="Of a multilingual model: its token of the target language, e.g. fra.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Make a teacher of a MarianMT model, such as those of OPUS-MT: it translates, distils and starts students."""
    from recoversat.pipeline.import_marian import import_marian

    report = import_marian(folder, out, source=source, target=target, target_token=target_token, force=force)
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(report.text, err=True)


@app.command(epilog="Example: `recoversat settings train --preset iwslt16`")
def settings(
    section: Annotated[str | None, typer.Argument(help="data, model, train or decode; all of them by default.")] = None,
    preset: Annotated[str | None, typer.Option(help="Set the values of this preset beside the defaults.")] = None,
) -> None:
    """Print every setting: its default, the values it may have, the paper's symbol and what it means."""
    from recoversat.show.settings import settings_page

    typer.echo(settings_page(section, preset), nl=False)
