"""The command itself, how verbs are added to it, and what several of them read."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar

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


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


Options = TypeVar("Options", bound=_Dataclass)


def verb(options: type[Options], epilog: str) -> Callable[[Callable[[Options], None]], Callable[[Options], None]]:
    """Add a verb that is given an object of a dataclass: its fields, in their order, are the options, declared once."""

    def add(run: Callable[[Options], None]) -> Callable[[Options], None]:
        @wraps(run)
        def command(**given: Any) -> None:
            run(options(**given))

        lists = {one.name: one.default_factory() for one in fields(options) if callable(one.default_factory)}
        declared = inspect.signature(options).parameters
        command.__annotations__ = {name: one.annotation for name, one in declared.items()}
        asked = [one.replace(default=lists.get(name, one.default)) for name, one in declared.items()]
        command.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
        app.command(epilog=epilog)(command)
        return run

    return add


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
