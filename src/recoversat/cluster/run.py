"""The whole road of a run: plan, work off, merge. Killed anywhere, the same command continues it."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from recoversat.cluster.crew import Crew
from recoversat.cluster.manifest import Folder, plan
from recoversat.cluster.merge import merge
from recoversat.cluster.report import RunReport
from recoversat.cluster.shards import SET_ASIDE, Load, Shard, WorkList, work_here
from recoversat.cluster.translating import LoadTranslator, run_settings
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
    folder = Folder(out.resolve())
    with ExitStack() as stack:
        if crew.share is None:  # shares are worked off beside each other
            stack.enter_context(held(folder.run, "another run is at work here; wait for it or write elsewhere"))
        manifest = plan(folder, asked.files, settings, size)
        shards = list(manifest.shards())
        load = LoadTranslator(asked, str(settings["model"]), crew.per_worker.threads)
        work_off("translate", shards, load, crew, state=folder.run)
        return merge(manifest) if crew.share is None else {}


def work_off(title: str, shards: list[Shard], load: Load, crew: Crew, *, state: Path) -> None:
    """Do all shards that nobody has done (of the crew's share), in this process or with Ray.

    The folder `state` gets metrics, and a file for each shard that was set aside.
    """
    unique = list({shard.key: shard for shard in shards}.values())
    mine = unique[crew.share.number - 1 :: crew.share.of] if crew.share else unique
    todo = WorkList.of(mine, state / SET_ASIDE)
    sentences = sum(shard.sentences for shard in mine)
    done = sentences - sum(shard.sentences for shard in todo.waiting)
    with progress(title, sentences, done) as bar:
        share = f"-{crew.share.number}-of-{crew.share.of}" if crew.share else ""
        report = RunReport(state / f"metrics{share}.prom", bar, todo, sentences=sentences, done=done)
        if todo.waiting and crew.ray:
            from recoversat.cluster.ray_pool import RayPool, connected

            with connected(crew), _polite(todo):  # in this order: Ray has an answer of its own to SIGTERM
                RayPool(crew, todo, load, report).work()
        elif todo.waiting:
            with _polite(todo):
                work_here(todo, load, report.settled)
        report.tick(now=True)
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
