"""A corpus that is too large for one process: `translate --workers`, `--cluster` and `--shard`, and `merge`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recoversat.cli.app import app
from recoversat.errors import UserError

if TYPE_CHECKING:
    from recoversat.cluster.crew import Crew
    from recoversat.pipeline.options import TranslateOptions


def crew_of(
    workers: int | None, cluster: str | None, per_worker: str | None, shard: str | None, device: str, threads: int = 0
) -> "Crew":
    """Read who shall work; where nothing is said a worker gets a core, or a GPU if that is the device."""
    from recoversat.cluster.crew import Crew, PerWorker

    if per_worker and threads:
        raise UserError("--per-worker says how many threads a worker has; leave --threads out")
    default = "gpus=1" if device.startswith("cuda") else f"cpus={threads or 1}"
    return Crew.of(workers or 1, cluster, PerWorker.parse(per_worker or default), shard)


def translate_shards(asked: "TranslateOptions") -> None:
    """Translate files into a folder, with a crew."""
    from recoversat.cluster.run import translate_corpus
    from recoversat.pipeline.translate_command import in_one_direction

    crew = crew_of(asked.workers, asked.cluster, asked.per_worker, asked.shard, asked.device, asked.threads)
    if not asked.files or asked.out is None:
        raise UserError("--workers, --cluster and --shard need files and a folder: translate INPUT... --out FOLDER")
    place = crew.per_worker.device if asked.device == "auto" else asked.device
    tell_outputs(translate_corpus(in_one_direction(replace(asked, device=place)), Path(asked.out), crew))


def tell_outputs(outputs: dict[Path, int]) -> None:
    """Name what was written; exit with an error where records could not be translated."""
    for path in outputs:
        typer.echo(path, err=True)
    exit_for_records(sum(outputs.values()))


def exit_for_records(errors: int) -> None:
    """Exit with an error where records could not be translated."""
    if errors:
        typer.echo(f'error: {errors:,} records could not be translated; they have an "error" instead', err=True)
        raise typer.Exit(1)


@app.command(epilog="Example: `recoversat merge FOLDER`, after `recoversat translate ... --out FOLDER --shard i/n`")
def merge(folder: Annotated[Path, typer.Argument(help="Folder that `translate --shard` wrote to.")]) -> None:
    """Join the shards of a run, in the order of the input, or say which are missing."""
    from recoversat.cluster import merge as merging
    from recoversat.cluster.manifest import Folder, read_manifest

    tell_outputs(merging.merge(read_manifest(Folder(folder.resolve()))))
