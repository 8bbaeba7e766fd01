"""The whole road of a run: plan, work off, merge. Killed anywhere, the same command continues it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType

from recoversat.cluster.crew import Crew
from recoversat.cluster.manifest import RUN, plan
from recoversat.cluster.merge import merge
from recoversat.cluster.shards import Load, Shard, WorkList, work_here
from recoversat.cluster.translating import load_translator, run_settings
from recoversat.errors import UserError
from recoversat.files.storage import held
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.stopping import stop_signals
from recoversat.show.progress import progress
from recoversat.translator import WINDOW


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


@contextmanager
def _polite(todo: WorkList) -> Iterator[None]:
    """Answer Ctrl-C by finishing the shards that were begun; a second one ends at once."""

    def answer(number: int, frame: FrameType | None) -> None:
        if todo.stopped:
            raise KeyboardInterrupt
        todo.stop("stopped")
        print("stopping: what was begun is finished first; Ctrl-C again ends at once", file=sys.stderr, flush=True)

    with stop_signals(answer):
        yield
