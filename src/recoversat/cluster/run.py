"""The whole road of a run: plan, work off, merge. Killed anywhere, the same command continues it."""

import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType

from recoversat.cluster.crew import Crew
from recoversat.cluster.inputs import Part, open_input
from recoversat.cluster.manifest import RUN, Manifest, plan, refuse_own_input
from recoversat.cluster.shards import SET_ASIDE, Load, Shard, WorkList, work_here
from recoversat.cluster.translating import load_translator, read_result, run_settings
from recoversat.errors import UserError
from recoversat.files.storage import held, read_json, sweep_partial
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.stopping import stop_signals
from recoversat.show.progress import progress
from recoversat.translator import WINDOW

_NAMED = 20  # missing shards that a message lists


def translate_corpus(asked: TranslateOptions, out: Path, crew: Crew) -> dict[Path, int]:
    """Translate files into a folder with any number of workers; returns what `merge` does, nothing for a share."""
    settings = run_settings(asked)
    window = asked.batch_size * WINDOW  # sentences sorted and batched together; the same ones as without shards
    size = -(-asked.shard_size // window) * window
    out = out.resolve()
    at_work = "another run is at work here; wait for it or write elsewhere"
    with nullcontext() if crew.share else held(out / RUN, at_work):  # shares are worked off beside each other
        manifest = plan(out, asked.files, settings, size)
        load = partial(load_translator, asked, str(settings["model"]), crew.threads)
        work_off("translate", list(manifest.shards()), load, crew, state=manifest.run)
        return {} if crew.share else merge(manifest)


def work_off(title: str, shards: list[Shard], load: Load, crew: Crew, *, state: Path) -> None:
    """Do all shards that nobody has done (of the crew's share), in this process or with Ray.

    The folder `state` gets metrics, and a file for each shard that was set aside.
    """
    unique = list({shard.key: shard for shard in shards}.values())
    number, of = crew.share or (1, 1)
    mine = unique[number - 1 :: of]
    done = sum(shard.sentences for shard in mine if shard.is_done)
    with progress(title, sum(shard.sentences for shard in mine), done) as bar:
        todo = WorkList(mine, bar, state, f"metrics-{number}-of-{of}.prom" if crew.share else "metrics.prom")
        if todo.waiting and crew.ray:
            from recoversat.cluster.ray_pool import RayPool, connected

            with connected(crew), _polite(todo):  # in this order: Ray has an answer of its own to SIGTERM
                RayPool(crew, todo, load).work()
        elif todo.waiting:
            with _polite(todo):
                work_here(todo, load)
        todo.tick(now=True)
    if todo.stopped:
        finished = sum(shard.is_done for shard in mine)
        raise UserError(f"{todo.stopped}. {finished:,} of {len(mine):,} shards are done; the same command continues")
    todo.raise_failures()


def _polite(todo: WorkList) -> AbstractContextManager[None]:
    """Answer Ctrl-C by finishing the shards that were begun; a second one ends at once."""

    def answer(number: int, frame: FrameType | None) -> None:
        if todo.stopped:
            raise KeyboardInterrupt
        todo.stop("stopped")
        print("stopping: what was begun is finished first; Ctrl-C again ends at once", file=sys.stderr, flush=True)

    return stop_signals(answer)


def merge(manifest: Manifest) -> dict[Path, int]:
    """Check that every key of the manifest is there and write an output for each input.

    Returns their paths, and how many records of each were in error.
    """
    shards = list(manifest.shards())
    if missing := [shard for shard in shards if not shard.is_done]:
        raise UserError(_describe(manifest, missing, len(shards)))
    outputs = {}
    for file in manifest.files:
        out = manifest.out / file.path.name
        refuse_own_input(out, file.path)
        source = open_input(file.path, jsonl=manifest.settings["jsonl"])
        outputs[out] = source.write(out, _translated(manifest.shards_of(file)))
    for folder in {shard.result.parent for shard in shards}:
        sweep_partial(folder)
    return outputs


def _translated(shards: Iterable[Shard]) -> Iterator[tuple[Part, list[str]]]:
    for shard in shards:
        try:
            lines = read_result(shard.result)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise UserError(f"{shard.result}: damaged ({error}); remove it and start the run again") from None
        part = shard.content[1]
        if len(lines) != part.count:
            raise UserError(f"{shard.result}: {len(lines)} lines for {shard.name}; remove it and start the run again")
        yield part, lines


def _describe(manifest: Manifest, missing: list[Shard], total: int) -> str:
    lines = []
    for shard in missing[:_NAMED]:
        record = manifest.run / SET_ASIDE / f"{shard.key}.json"
        reason = f": set aside, {read_json(record, 'record')['reason']}" if record.is_file() else ""
        lines.append(f"{shard.name} ({shard.key}){reason}")
    if len(missing) > _NAMED:
        lines.append(f"and {len(missing) - _NAMED:,} more")
    return "\n  ".join([f"{len(missing):,} of {total:,} shards are missing; nothing was merged:", *lines])
