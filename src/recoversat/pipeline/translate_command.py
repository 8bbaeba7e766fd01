"""The work that `translate` is asked for."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from recoversat.cluster.crew import Crew
from recoversat.config import parse_overrides
from recoversat.engines.loading import ComputeType
from recoversat.errors import UserError
from recoversat.files.model_folder import model_fingerprint, model_folder, read_config, resolve_model
from recoversat.files.storage import fingerprint
from recoversat.inference.request import modes_for
from recoversat.pipeline.direction import AUTO, Directions, Pair
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import plan_outputs
from recoversat.pipeline.translate_documents import translate_documents
from recoversat.pipeline.translate_files import translate_jobs
from recoversat.text.documents import LINES
from recoversat.translator import Translator

_SAMPLE = 512  # lines that tell the language of a corpus


def translate(asked: TranslateOptions) -> int:
    """Do the work; returns how many records were in error, which only JSON lines can be."""
    jobs = plan_outputs(asked.files, asked.out, asked.trace)
    translator = _load(asked)
    directions = Directions(translator.config.data, asked.source, asked.target)
    if asked.format != LINES:
        for job in jobs:
            translate_documents(translator, job, asked, directions)
        return 0
    can_go_on = not (asked.trace or asked.force)  # a trace has no partial file; forced words need all lines
    return translate_jobs(translator, jobs, asked, directions, partial(_settings, asked) if can_go_on else None)


def translate_shared(asked: TranslateOptions) -> dict[Path, int]:
    """Translate files into a folder with several workers; returns its files, and how many records were in error."""
    crew = Crew.of(asked.workers, asked.cluster, asked.per_worker, asked.shard, asked.device, asked.threads)
    if not asked.files or asked.out is None:
        raise UserError("--workers, --cluster and --shard need files and a folder: translate INPUT... --out FOLDER")
    if Path(asked.out).exists() and not Path(asked.out).is_dir():
        raise UserError(f"--out {asked.out} is a file: --workers, --cluster and --shard write to a folder; name one")
    for path in asked.files:
        if path.is_fifo():
            raise UserError(
                f"{path} is a pipe, which can be read once: --workers, --cluster and --shard need plain files"
            )
    place = crew.device if asked.device == "auto" else asked.device
    from recoversat.cluster.run import translate_corpus

    return translate_corpus(in_one_direction(replace(asked, device=place)), Path(asked.out), crew)


def in_one_direction(asked: TranslateOptions) -> TranslateOptions:
    """Settle for several workers in which direction they translate: one for all texts."""
    if asked.source != AUTO and (asked.source or asked.target):
        return asked
    from recoversat.cluster.inputs import open_input

    directions = Directions(read_config(_folder(asked))[0].data, asked.source, asked.target)
    chosen: dict[Pair, Path] = {}  # and the first file of each; those without letters say nothing
    for path in asked.files:
        part = next(open_input(path, jsonl=asked.jsonl).parts(_SAMPLE), None)
        text = "\n".join(open_input(path, jsonl=asked.jsonl).texts(part)) if part else ""
        if any(map(str.isalpha, text)):
            chosen.setdefault(directions.choose(text, str(path)), path)
    if len(chosen) > 1:
        found = ", ".join(f"{path} is {source} -> {target}" for (source, target), path in chosen.items())
        raise UserError(
            f"{found}: --workers, --cluster and --shard translate one direction; translate these files apart, "
            f"or name the language of all of them with --from"
        )
    source, target = next(iter(chosen), directions.choose("", ""))
    return replace(asked, source=source, target=target)


def _source(asked: TranslateOptions) -> str | None:
    return None if asked.source == AUTO else asked.source


def _folder(asked: TranslateOptions) -> Path:
    return model_folder(asked.model, _source(asked), asked.target)


def _load(asked: TranslateOptions) -> Translator:
    translator = Translator(
        _folder(asked), source=_source(asked), target=asked.target, device=asked.device,
        compute_type=cast("ComputeType", asked.compute_type), intra_threads=asked.threads, max_memory=asked.max_memory,
    )  # fmt: skip
    if asked.teacher:
        translator.judged_by(asked.teacher, asked.lengths, asked.device)
    quality = "exact" if asked.exact else asked.quality
    modes_for(translator.config, asked.segments, quality, beam=asked.beam, forced=bool(asked.force))
    settings: dict[str, Any] = {"quality": quality} if quality else {}
    settings |= {"usual": "fast"} if asked.show or asked.trace else {}  # who looks at segments wants to see some
    settings |= {"repairs": "none"} if asked.no_repairs else {}
    settings |= {"shortlist": False} if asked.no_shortlist else {}
    translator.set_decoding(**settings | parse_overrides(asked.settings).get("decode", {}))
    translator.set_glossary(asked.glossary)
    return translator


def _settings(asked: TranslateOptions) -> dict[str, Any]:
    """Describe all that an output depends on beside its input: the model by its content, never by its place."""
    teacher = asked.teacher and model_fingerprint(resolve_model(asked.teacher))
    return {
        "model": model_fingerprint(_folder(asked)), "from": asked.source, "to": asked.target,
        "segments": asked.segments, "quality": asked.quality, "exact": asked.exact,
        "beam": asked.beam, "batch_size": asked.batch_size, "jsonl": asked.jsonl, "show": asked.show,
        "glossary": asked.glossary and fingerprint(asked.glossary), "min_confidence": asked.min_confidence,
        "no_repairs": asked.no_repairs, "no_shortlist": asked.no_shortlist, "settings": asked.settings,
        "teacher": teacher, "lengths": asked.lengths, "device": asked.device, "compute_type": asked.compute_type,
    }  # fmt: skip
