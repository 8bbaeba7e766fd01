"""The command itself, and the options that several verbs share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from recoversat.errors import UserError

if TYPE_CHECKING:
    from recoversat.data.prepare import TextPairs

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Semi-autoregressive machine translation: all segments of a sentence written at the same time.",
)

ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML file of settings.")]
Preset = Annotated[str | None, typer.Option(help="Start from: iwslt16, wmt14, wmt16, small, tiny, deep-shallow.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="section.key=value; wins over --config.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.")]
Model = Annotated[Path | None, typer.Option(help="Model folder or training run; a built-in one by default.")]
From = Annotated[str | None, typer.Option("--from", help="Language of the source text.")]
To = Annotated[str | None, typer.Option("--to", help="Language of the translation.")]
NoRepairs = Annotated[bool, typer.Option("--no-repairs", help="Decode as the paper does: nothing is repaired.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is already there.")]


def parse_segments(text: str) -> int | tuple[int, ...] | Literal["auto"]:
    """Read K: a number, several, or auto."""
    if text == "auto":
        return "auto"
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is neither a whole number from 1 nor auto, nor several such as 6,10")
    return tuple(map(int, parts)) if len(parts) > 1 else int(text)


def parse_bytes(text: str) -> int:
    """Read a size in bytes, as pydantic understands it: 512M, 2GB, 1.5GiB."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is no size; write e.g. 512M or 2G")
    return size


Segments = Annotated[
    Any,
    typer.Option(
        "--segments", parser=parse_segments, metavar="K",
        help="K, or auto: by length; of several, 6,10, the best. The model's own by default.",
    ),
]  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from recoversat import __version__

        typer.echo(f"recoversat {__version__}")
        raise typer.Exit


def text_pairs(src: Path | None, tgt: Path | None, tsv: Path | None = None) -> "TextPairs":
    """Read two files, or one with two columns."""
    from recoversat.data.prepare import TextPairs

    if tsv and not (src or tgt):
        return TextPairs(tsv)
    if src and tgt and not tsv:
        return TextPairs(src, tgt)
    raise UserError("give either --src and --tgt, or --tsv")


def optional_pairs(src: Path | None, tgt: Path | None, name: str) -> "TextPairs | None":
    """Read two files that come together or not at all."""
    if bool(src) != bool(tgt):
        raise UserError(f"give {name}-src and {name}-tgt together")
    return text_pairs(src, tgt) if src and tgt else None
