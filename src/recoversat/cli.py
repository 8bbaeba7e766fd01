"""The `recoversat` command: one small function a verb, no logic; imports happen inside, so help is instant."""

import sys
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
    if bool(valid_src) != bool(valid_tgt):
        raise UserError("give --valid-src and --valid-tgt together")
    valid = preparing.TextPairs(valid_src, valid_tgt) if valid_src and valid_tgt else None
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
    device: Device = "auto",
) -> None:
    """Translate text line by line: one line out for each line in."""
    from recoversat.show_files import Inspection, show_lines
    from recoversat.translate_files import translate_lines
    from recoversat.translator import Translator

    inspection = Inspection.of(show, trace, force_words, jsonl=jsonl)
    translator = Translator(model, device=device)
    if inspection:
        show_lines(translator, files or [], out, inspection, segments=segments, batch_size=batch_size, beam=beam)
    else:
        translate_lines(translator, files or [], out, segments=segments, batch_size=batch_size, jsonl=jsonl, beam=beam)


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


def _pairs(src: Path | None, tgt: Path | None, tsv: Path | None):  # type: ignore[no-untyped-def]
    from recoversat.data.prepare import TextPairs

    if tsv and not (src or tgt):
        return TextPairs(tsv)
    if src and tgt and not tsv:
        return TextPairs(src, tgt)
    raise UserError("give either --src and --tgt, or --tsv")


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
