"""The `recoversat` command: one small function a verb, no logic; imports happen inside, so help is instant."""

import os
import sys

import typer

from recoversat.cli import learning, measuring, translating  # noqa: F401  (importing them adds their verbs)
from recoversat.cli.app import app
from recoversat.errors import UserError

_TRAINING = {"torch", "tensorboard", "matplotlib", "onnx"}  # of the extra [train]


def main() -> None:
    """Run the command; a user's mistake gets one clear line, not a traceback."""
    try:
        _open_closed_streams()
        app(prog_name="recoversat")
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # `recoversat translate ... | head`
        sys.stderr.close()
        sys.exit(141)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _TRAINING:
            raise
        typer.echo(f"error: this needs {error.name}: pip install 'recoversat[train]'", err=True)
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that may not be written
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)  # 1 would say that all but some records are translated


def _open_closed_streams() -> None:
    """Let a program work that was started without standard input or error, as `<&-` does; it must be able to answer."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise UserError("standard output is closed; lead it somewhere, e.g. > /dev/null")
