"""The command itself, and the options that several verbs share."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

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
Model = Annotated[
    Path | None, typer.Option(help="Model folder or training run; a built-in one by default.", show_default=False)
]
From = Annotated[str | None, typer.Option("--from", help="Language of the source text.", show_default=False)]
To = Annotated[str | None, typer.Option("--to", help="Language of the translation.", show_default=False)]
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


Segments = Annotated[
    Any,
    typer.Option(
        "--segments", parser=parse_segments, metavar="K", show_default=False,
        help="K, or auto: by length; of several, 6,10, the best. The model's own by default.",
    ),
]  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from recoversat import __version__

        typer.echo(f"recoversat {__version__}")
        raise typer.Exit
