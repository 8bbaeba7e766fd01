"""What a user asks of `translate`: all of its options, which of them go together, and the work they ask for."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recoversat.cluster.inputs import open_input
from recoversat.cluster.translating import ModelChoice
from recoversat.config import parse_overrides
from recoversat.engines.loading import ComputeType
from recoversat.errors import UserError
from recoversat.files.builtin import builtin_model
from recoversat.files.model_folder import model_fingerprint, read_config, resolve_model
from recoversat.files.storage import fingerprint
from recoversat.inference.request import WantedSegments, modes_for
from recoversat.pipeline.direction import AUTO, Directions, Pair
from recoversat.pipeline.outputs import plan_outputs
from recoversat.pipeline.translate_documents import translate_documents
from recoversat.pipeline.translate_files import LineOptions, translate_jobs
from recoversat.show.inspection import Inspection
from recoversat.translator import Translator

LINES = "lines"
_SAMPLE = 512  # lines that tell the language of a corpus


@dataclass(frozen=True)
class TranslateCommand:
    """The options of `translate`, as they are named there."""

    files: list[Path]
    out: str | None = None
    model: Path | None = None
    source: str | None = None
    target: str | None = None
    segments: WantedSegments = None
    best_of: int | None = None
    quality: str | None = None
    exact: bool = False
    batch_size: int = 32
    at_once: bool = False
    jsonl: bool = False
    beam: int = 1
    show: str | None = None
    trace: Path | None = None
    force: tuple[str, ...] = ()
    glossary: Path | None = None
    min_confidence: float | None = None
    format: str = LINES
    no_repairs: bool = False
    no_shortlist: bool = False
    settings: tuple[str, ...] = ()
    teacher: Path | None = None
    lengths: int = 9
    device: str = "auto"
    compute_type: ComputeType = "default"
    threads: int = 0
    max_memory: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before anything is loaded."""
        by_line = self.show or self.trace or self.force or self.jsonl or self.at_once
        if self.format != LINES and (by_line or self.min_confidence is not None):
            without = "--show, --trace, --force, --jsonl, --line-buffered and --min-confidence"
            raise UserError(f"--format {self.format} goes without {without}")
        if self.show not in (None, "segments"):
            raise UserError(f"--show {self.show}: there is only --show segments")
        if self.jsonl and (self.show or self.trace or self.force):
            raise UserError("--jsonl goes without --show, --trace and --force; --trace FILE writes JSON of its own")
        if self.glossary and self.force:
            raise UserError("--glossary goes without --force, which names a place in one division into segments")
        if self.at_once and self.force:
            raise UserError("--line-buffered goes without --force, which looks at all lines together")
        for setting in self.settings:
            if not setting.startswith("decode."):
                raise UserError(f"--set {setting}: only settings of decode can change, e.g. decode.begin_at=word")
        if self.exact and (self.quality not in (None, "exact") or self.best_of):
            raise UserError("--exact goes without --best-of and another --quality")

    def check_shared(self) -> None:
        """Refuse what several workers cannot do."""
        steers = self.force or self.teacher or self.max_memory or self.quality or self.best_of
        steers = steers or self.no_repairs or self.no_shortlist or self.settings
        shows = self.show or self.trace or self.at_once or self.format != LINES or self.min_confidence is not None
        if steers or self.glossary or shows or self.exact or isinstance(self.segments, tuple):
            raise UserError(
                "--workers, --cluster and --shard write lines to a folder, and take no options that show or steer"
            )

    def run(self) -> int:
        """Do the work; returns how many records were in error, which only JSON lines can be."""
        jobs = plan_outputs(self.files, self.out, self.trace)
        translator = self._load()
        directions = Directions(translator.config.data, self.source, self.target)
        if self.format != LINES:
            for job in jobs:
                translate_documents(
                    translator, job, format=self.format, directions=directions, segments=self.segments,
                    batch_size=self.batch_size, beam=self.beam,
                )  # fmt: skip
            return 0
        inspection = Inspection(self.show == "segments", self.trace, self.force)
        batch_size = 1 if self.at_once else self.batch_size
        options = LineOptions(
            self.segments, batch_size, self.beam, self.jsonl, self.at_once, inspection, self.min_confidence
        )
        can_go_on = not (self.trace or self.force)  # a trace has no partial file; forced words need all lines
        return translate_jobs(translator, directions, jobs, options, self._settings if can_go_on else None)

    def at_terminal(self) -> "TranslateCommand":
        """Answer each line at once where somebody types them, with a word on how that goes."""
        if self.files or not sys.stdin.isatty():
            return self
        together = self.format != LINES or bool(self.force)  # translated when all is there
        hint = "Type text; Ctrl-D ends it and translates" if together else "Type a line and press Enter; Ctrl-D ends"
        print(hint, file=sys.stderr, flush=True)
        return self if together else replace(self, at_once=True)

    def model_choice(self, device: str) -> ModelChoice:
        """Say for several workers which model translates, and in which direction: one for all texts."""
        source, target = self.source, self.target
        if source == AUTO or not (source or target):
            source, target = self._common_direction()
        return ModelChoice(
            self.model, source, target, self.segments, self.batch_size, self.beam, device, self.compute_type
        )

    def _common_direction(self) -> Pair:
        """Return the direction in which all files are to be translated; those without letters say nothing."""
        directions = Directions(read_config(self._folder)[0].data, self.source, self.target)
        chosen: dict[Pair, Path] = {}  # and the first file of each
        for path in self.files:
            part = next(open_input(path, jsonl=self.jsonl).parts(_SAMPLE), None)
            text = "\n".join(open_input(path, jsonl=self.jsonl).texts(part)) if part else ""
            if any(map(str.isalpha, text)):
                chosen.setdefault(directions.choose(text, str(path)), path)
        if len(chosen) > 1:
            found = ", ".join(f"{path} is {source} -> {target}" for (source, target), path in chosen.items())
            raise UserError(
                f"{found}: --workers, --cluster and --shard translate one direction; translate these files apart, "
                f"or name the language of all of them with --from"
            )
        return next(iter(chosen), directions.choose("", ""))

    @property
    def _folder(self) -> Path:
        source = None if self.source == AUTO else self.source
        return builtin_model(source, self.target) if self.model is None else resolve_model(self.model)

    def _load(self) -> Translator:
        """Load the model and set it as asked."""
        translator = Translator(
            self._folder, source=None if self.source == AUTO else self.source, target=self.target, device=self.device,
            compute_type=self.compute_type, intra_threads=self.threads, max_memory=self.max_memory,
        )  # fmt: skip
        if self.teacher:
            translator.judged_by(self.teacher, self.lengths, self.device)
        quality = "exact" if self.exact else self.quality
        modes_for(translator.config, self.segments, quality, self.best_of, beam=self.beam, forced=bool(self.force))
        if quality or self.best_of:
            asked = {"quality": quality or "fast"} | ({"best_of": self.best_of} if self.best_of else {})
            translator.set_decoding(**asked)
        translator.set_glossary(self.glossary)
        if self.no_repairs:
            translator.set_decoding(repairs="none")
        if self.no_shortlist:
            translator.set_decoding(shortlist=False)
        if self.settings:
            translator.set_decoding(**parse_overrides(self.settings)["decode"])
        return translator

    def _settings(self) -> dict[str, Any]:
        """Describe all that an output depends on beside its input: the model by its content, never by its place."""
        teacher = self.teacher and model_fingerprint(resolve_model(self.teacher))
        return {
            "model": model_fingerprint(self._folder), "from": self.source, "to": self.target,
            "segments": self.segments, "best_of": self.best_of, "quality": self.quality, "exact": self.exact,
            "beam": self.beam, "batch_size": self.batch_size, "jsonl": self.jsonl, "show": self.show,
            "glossary": self.glossary and fingerprint(self.glossary), "min_confidence": self.min_confidence,
            "no_repairs": self.no_repairs, "no_shortlist": self.no_shortlist, "settings": list(self.settings),
            "teacher": teacher, "lengths": self.lengths, "device": self.device, "compute_type": self.compute_type,
        }  # fmt: skip
