"""A stand-in for a model that translates into capitals, and a run with it as a process of its own."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from recoversat.cluster.crew import Crew
from recoversat.cluster.manifest import Manifest, plan
from recoversat.cluster.run import merge, work_off
from recoversat.cluster.shards import Worker
from recoversat.cluster.translating import shard_translator

LINES_A_SHARD = 4


@dataclass(frozen=True)
class Shouting:
    """Makes workers that take their time, write down what they begin, and die of the line "poison"."""

    diary: Path
    seconds: float

    def __call__(self) -> Worker:
        return shard_translator(self.translate, lambda: None, jsonl=False)

    def translate(self, texts: list[str]) -> list[str]:
        with open(self.diary, "a") as stream:
            stream.write(f"{os.getpid()} {texts[0]}\n")
        if "poison" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return [text.upper() for text in texts]

    def begun(self) -> list[tuple[int, str]]:
        """Return who began with which text."""
        entries = self.diary.read_text().splitlines() if self.diary.exists() else []
        return [(int(pid), text) for pid, text in (entry.split(" ", 1) for entry in entries)]


def plan_of(source: Path, out: Path) -> Manifest:
    return plan(out.resolve(), [source], {"model": "made up", "jsonl": False}, LINES_A_SHARD)


def shout(source: Path, out: Path, load: Shouting, crew: Crew) -> None:
    """Work all shards off and merge them."""
    manifest = plan_of(source, out)
    work_off("shout", list(manifest.shards()), load, crew, state=manifest.run)
    merge(manifest)


if __name__ == "__main__":  # SOURCE OUT DIARY SECONDS WORKERS ADDRESS
    where = [Path(argument) for argument in sys.argv[1:4]]
    shout(
        *where[:2],
        Shouting(where[2], float(sys.argv[4])),
        Crew(workers=int(sys.argv[5]), ray=True, address=sys.argv[6] or None),
    )
