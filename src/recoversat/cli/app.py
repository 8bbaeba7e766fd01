"""The command itself, and how verbs are added to it."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import typer

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
        # fields that are not `Annotated` are no options, and keep their defaults
        parameters = inspect.signature(options).parameters.values()
        declared = [one for one in parameters if hasattr(one.annotation, "__metadata__")]
        command.__annotations__ = {one.name: one.annotation for one in declared}
        asked = [one.replace(default=lists.get(one.name, one.default)) for one in declared]
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
