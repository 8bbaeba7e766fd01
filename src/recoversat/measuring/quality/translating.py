"""From a system and a test set to a `SystemOutput`: translate, time, keep, and use again what is still true."""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from recoversat.errors import UserError
from recoversat.files.storage import sweep_partial
from recoversat.inference.translation import Translation
from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet, read_saved, save_output
from recoversat.measuring.system import JSON, System
from recoversat.show.progress import progress

_TIMED, _THREADS = "latency_sentences", "threads"
_TIMING = {_TIMED: None, _THREADS: None}  # settings that change the time and not the text


@dataclass(frozen=True)
class ModelOutputs:
    """What a loaded system writes on test sets, kept under `folder`."""

    name: str
    system: System
    batch_size: int
    folder: Path

    @cached_property
    def settings(self) -> dict[str, JSON]:
        return self.system.settings() | {"batch": self.batch_size}

    def on(self, test_set: TestSet, latency: int = 0) -> SystemOutput:
        """Take the saved output where it is still true, else translate; time `latency` sentences at batch 1."""
        folder = self.folder / test_set.name
        folder.mkdir(parents=True, exist_ok=True)
        sweep_partial(folder)
        output = self._kept(folder, test_set)
        if output is None:
            output = self._translated(test_set)
            save_output(folder, output, test_set)
        timed: dict[str, JSON] = {**self.settings, _TIMED: latency}
        if latency and (output.latency_ms is None or output.settings != timed):
            output = replace(output, latency_ms=self._latency_ms(test_set, latency), settings=timed)
            save_output(folder, output, test_set)
        return output

    def _kept(self, folder: Path, test_set: TestSet) -> SystemOutput | None:
        path = folder / f"{self.name}.jsonl"
        if not path.is_file():
            return None
        try:
            output = read_saved(path, test_set, self.name)
        except UserError:  # of another test set, or damaged: it is made anew
            return None
        same = {**output.settings, **_TIMING} == {**self.settings, **_TIMING}
        return output if same else None

    def _translated(self, test_set: TestSet) -> SystemOutput:
        with progress(f"{self.name} on {test_set.name}", len(test_set.sources)) as bar:
            written = self.system.translate(test_set.sources, self.batch_size, done=bar.advance)
        output = SystemOutput(
            name=self.name,
            test_set=test_set.name,
            hypotheses=[one.text for one in written],
            tokens=[one.ids for one in written],
            settings=self.settings,
        )
        own = [one for one in written if isinstance(one, Translation)]
        if not own:
            return output
        segments = [[SegmentStat(len(one.ids), one.ending) for one in each.segments] for each in own]
        return replace(  # what only our own models tell
            output,
            steps=[one.steps for one in own],
            segments=None if output.settings["K"] is None else segments,
            scores=_sureness(own),
        )

    def _latency_ms(self, test_set: TestSet, n_sentences: int) -> float:
        """Return the mean time of one sentence at batch 1, tokenisation included."""
        sources = [source for source in test_set.sources if source.strip()][:n_sentences]
        for source in sources:  # an engine prepares for every length it meets first
            self.system.translate([source], 1)
        began = time.perf_counter()
        for source in sources:
            self.system.translate([source], 1)
        return 1000 * (time.perf_counter() - began) / max(len(sources), 1)


def _sureness(written: list[Translation]) -> list[float]:
    """Return what ranks translations: their confidence (its logarithm) where all have one, else their scores."""
    if all(one.confidence for one in written if one.segments):
        return [math.log(one.confidence) if one.confidence else 0.0 for one in written]
    return [one.score for one in written]
