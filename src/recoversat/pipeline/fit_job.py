"""What `fit` was asked for, with sensible settings by the size of the corpus where nothing was said; whether it can be
done, and whose folder it works in.

All that a run would refuse is refused before its first stage, and by `--dry-run`.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from recoversat.config import PAPER_PRESETS, Config, ModelConfig, load_config, preset_name
from recoversat.data.prepare import TextPairs, optional_pairs
from recoversat.errors import UserError
from recoversat.files.identity import check_record, claim
from recoversat.files.model_folder import model_fingerprint, read_config, resolve_model
from recoversat.files.storage import fingerprint, make_empty, unpacked_name
from recoversat.pipeline.options import FitOptions
from recoversat.training.run_folder import EXTENSIBLE, HARMLESS, extension

STATE = "fit.json"
HELD_OUT = 20  # one pair in so many is kept for validation, where no files are given
_MAY_CHANGE = [f"{name} {key}" for name in ("teacher", "student") for key in EXTENSIBLE]
Say = Callable[[str], None]
# Whatever the size: what a reader wants. The paper repairs nothing, so its presets do not either.
_DECODE = {"join_overlaps": True, "never_empty": True, "cut_loops": True}
_UNSPACED = ("zh", "cmn", "yue", "ja", "jap", "jpn", "th", "tha", "lo", "km", "my")  # written without spaces
_LETTERS = 12  # of a word, with the space after it: more have only languages that are written without spaces


@dataclass(frozen=True)
class FitJob:
    pairs: TextPairs
    out: Path
    student: Config
    teacher: Config
    valid: TextPairs | None = None
    test: TextPairs | None = None
    hold_out: int = 0
    beam: int = 4
    device: str = "auto"
    say: Say = print
    with_decoder: bool = True  # False: start the student as the paper does; its decoder then needs many more updates
    given: Path | None = None  # the teacher, where none is trained
    from_text_alone: bool = False  # the student has another shape than its teacher, and starts from nothing


def looked_at(pairs: Iterable[tuple[str, str]]) -> tuple[int, bool]:
    """Count pairs, and say whether targets have spaces between their words.

    >>> looked_at([("One house.", "Ein Haus.")] * 2), looked_at([("We live here.", "我们住在这座城市的这个地方。")])
    ((2, True), (1, False))
    """
    n_pairs, letters, words = 0, 0, 0
    for _, target in pairs:
        n_pairs, letters, words = n_pairs + 1, letters + len(target), words + len(target.split())
    return n_pairs, letters < _LETTERS * words


def settings_for(n_pairs: int, spaced: bool = True) -> dict[str, dict[str, Any]]:
    """Return settings that suit a corpus of so many pairs, as a config file would give them.

    >>> settings_for(29_000)["model"]["d_model"], settings_for(29_000)["train"]["cut_at"]
    (256, 'word')
    """
    by_size = yaml.safe_load(Path(__file__).with_name("fit_defaults.yaml").read_text(encoding="utf-8"))
    settings: dict[str, dict[str, Any]] = next(found for limit, found in by_size.items() if n_pairs <= limit)
    return settings | {"decode": _DECODE, "train": settings["train"] | ({"cut_at": "word"} if spaced else {})}


def with_rhythm(config: Config, untouched: Config) -> Config:
    """Save twenty times and validate ten times in a run, whatever its length, where the user left that untouched."""
    steps = config.train.steps
    rhythm = {"save_every": max(steps // 20, 1), "validate_every": max(steps // 10, 1)}
    mine = {key: n for key, n in rhythm.items() if getattr(config.train, key) == getattr(untouched.train, key)}
    return config.model_copy(update={"train": config.train.model_copy(update=mine)})


def fit_job(asked: FitOptions) -> FitJob:
    """Settle everything `fit` needs: what the user gave wins over what the size of the corpus suggests.

    A preset of the paper is its recipe throughout: the student takes only the teacher's encoder and embeddings
    (unless `encoder_only` says otherwise), and nothing it writes is repaired.
    """
    if asked.teacher:
        return _job_of_given_teacher(asked, asked.teacher)
    if asked.size or not asked.tgt:
        raise UserError("--size is for --teacher" if asked.size else "give --tgt, or --teacher with a model to distil")
    segments, config, preset, overrides = asked.segments, asked.config, asked.preset, asked.settings or []
    pairs, valid = TextPairs(asked.src, asked.tgt), optional_pairs(asked.valid_src, asked.valid_tgt, "--valid")
    k = _segments_settings(segments, overrides)
    n_pairs, spaced = looked_at(pairs)
    as_in_the_paper = preset_name(config, preset) in PAPER_PRESETS
    base = {} if as_in_the_paper else {"decode": _DECODE} if config or preset else settings_for(n_pairs, spaced)
    suffixes = [unpacked_name(path).name.rpartition(".")[2] for path in (asked.src, asked.tgt)]
    base = base | {"data": base.get("data", {}) | dict(zip(("src_lang", "tgt_lang"), suffixes, strict=True))}

    def settled(*more: str) -> Config:
        chosen = load_config(config, preset, [*k, *overrides, *more], base)
        return with_rhythm(chosen, load_config(None, chosen.preset, None, base))

    student, teacher = settled(), settled("train.segments=1", *(asked.teacher_set or []))
    encoder_only = as_in_the_paper if asked.encoder_only is None else asked.encoder_only
    return FitJob(
        pairs, asked.out, student, teacher, valid, optional_pairs(asked.test_src, asked.test_tgt, "--test"),
        hold_out=0 if valid else min(1000, n_pairs // HELD_OUT),
        beam=student.decode.beam,
        device=asked.device,
        say=lambda text: print(text, file=sys.stderr),
        # of the teacher's decoder the student may take fewer layers, but not more
        with_decoder=not encoder_only and student.model.decoder_layers <= teacher.model.decoder_layers,
    )  # fmt: skip


def _segments_settings(segments: int | None, overrides: list[str]) -> list[str]:
    """Return the settings that --segments stands for."""
    if segments and any(one.startswith("train.segments=") for one in overrides):
        raise UserError("K is named twice, by --segments and by --set train.segments: leave one of them out")
    k = [f"train.segments={segments}"] if segments else []
    return k + ([f"model.max_segments={segments}"] if segments and segments > ModelConfig().max_segments else [])


def _job_of_given_teacher(asked: FitOptions, given: Path) -> FitJob:
    """Settle the same where the teacher is there: the student has its shape and vocabulary, or a preset's shape.

    Without --tgt the source text stands in for the target, which distilling replaces.
    """
    folder = resolve_model(given)
    teacher, _ = read_config(folder)
    if asked.teacher_set or asked.preset or asked.config:
        raise UserError(
            "--teacher brings its settings: leave out --teacher-set, --preset and --config; see --size, --set"
        )
    if not asked.tgt and teacher.data.both_directions:
        raise UserError(f"{given} translates {teacher.data.languages}: give text of both languages, --src and --tgt")
    overrides = [*_segments_settings(asked.segments, asked.settings or []), *(asked.settings or [])]
    pairs = TextPairs(asked.src, asked.tgt or asked.src)
    valid = optional_pairs(asked.valid_src, asked.valid_tgt, "--valid")
    n_pairs, spaced = looked_at(pairs)
    base = settings_for(n_pairs, spaced and teacher.data.tgt_lang not in _UNSPACED)
    if not asked.size:
        base |= {"model": teacher.model.model_dump(exclude={"max_segments", "vocab_size"})}
    base |= {"data": teacher.data.model_dump()}
    chosen = load_config(None, asked.size, overrides, base)
    vocabulary = {"data": chosen.data.model_copy(update={"vocab_size": teacher.data.vocab_size})}
    student = with_rhythm(chosen.model_copy(update=vocabulary), load_config(None, asked.size, None, base))
    return FitJob(
        pairs, asked.out, student, teacher, valid, optional_pairs(asked.test_src, asked.test_tgt, "--test"),
        hold_out=0 if valid or not asked.tgt else min(1000, n_pairs // HELD_OUT),
        beam=student.decode.beam,
        device=asked.device,
        say=lambda text: print(text, file=sys.stderr),
        with_decoder=not asked.encoder_only,
        given=folder,
        from_text_alone=asked.size is not None,
    )  # fmt: skip


def check_settings(job: FitJob) -> None:
    """Find out before the first training that distilling, or the last training, could not follow it."""
    student, teacher = job.student, job.teacher
    for name in () if job.from_text_alone else ("d_model", "d_hidden", "n_heads", "encoder_layers"):
        own, other = getattr(student.model, name), getattr(teacher.model, name)
        if own != other:
            raise UserError(
                f"model.{name} is {own}, the teacher's is {other}: the student starts from its teacher's encoder,"
                f" so both need the same; use --set model.{name}={other}"
            )
    for kind in {student.model.kind, teacher.model.kind} - {"segments"}:
        raise UserError(
            f"model.kind={kind}: `fit` trains a RecoverSAT and its autoregressive teacher; run it without, then "
            f"`recoversat train OUT/distilled --set model.kind={kind} --init-from OUT/teacher-model`"
        )
    if 1 not in teacher.train.segment_choices:
        raise UserError("a teacher writes one segment; leave out --teacher-set train.segments")
    for objective in {student.train.objective, teacher.train.objective} - {None}:
        from recoversat.training.objective import OwnObjective

        OwnObjective.load(str(objective))


def check_folder(job: FitJob, force: bool) -> dict[str, Any]:
    """Refuse a folder that is not this run's own or has no room, and files that cannot be read; return who we are."""
    check_place(job.out)
    if job.out.exists() and any(job.out.iterdir()) and not (job.out / STATE).is_file():
        left_alone = "holds something that `fit` did not make; it is left alone"
        raise UserError(
            f"{job.out} {left_alone if force else 'exists and was not made by `fit`; choose another folder'}"
        )
    identity = _identity(job)
    if not force:
        _is_extended(job, identity)
    _check_text(job)
    _check_room(job, force)
    return identity


def _check_text(job: FitJob) -> None:
    """Read validation and test text to the end, as the last stage would; the training text has been counted."""
    from recoversat.measuring.quality.outputs import read_test_set

    if job.valid and not any(all(side.strip() for side in pair) for pair in list(job.valid)):
        raise UserError(f"{job.valid.src}: no pair of sentences in it")
    if job.test and job.test.tgt:
        read_test_set("test", job.test.src, job.test.tgt)
        if job.student.data.both_directions:
            read_test_set("test", job.test.tgt, job.test.src)


def check_place(out: Path) -> None:
    """Refuse a folder that could not be made or written to."""
    there = _existing(out)
    if not there.is_dir():
        raise UserError(f"{there} is a file; choose a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{there}: you may not write there; choose another folder")


def _existing(out: Path) -> Path:
    """Find the nearest folder that is there."""
    return next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())


def _check_room(job: FitJob, force: bool) -> None:
    """Refuse to begin what the disk cannot hold: checkpoints above all, each of weights and two moments of Adam."""
    if (job.out / "summary.json").exists() and not force:
        return
    needed = sum(_bytes_of_run(config) for config in ([] if job.given else [job.teacher]) + [job.student])
    taken = sum(path.stat().st_size for path in job.out.rglob("*") if path.is_file())
    free = shutil.disk_usage(_existing(job.out)).free
    if needed - taken > free:
        raise UserError(
            f"{job.out}: the checkpoints of teacher and student need {needed / 1e9:.1f} GB, of which {taken / 1e9:.1f} "
            f"are there, and {free / 1e9:.1f} GB are free; make room, or keep fewer: --set train.keep_checkpoints=1"
        )


def _bytes_of_run(config: Config) -> int:
    """Estimate what a training leaves: its checkpoints and one in the making, the best, the average, the model kept."""
    import torch

    from recoversat.model.build import build_model

    with torch.device("meta"):  # sizes alone
        model = build_model(config.model.model_copy(update={"vocab_size": config.data.vocab_size}))
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    train = config.train
    kept = min(train.keep_checkpoints, -(-train.steps // train.save_every)) + 1
    return weights * (3 * kept + 4)


def claim_folder(job: FitJob, identity: dict[str, Any], force: bool) -> None:
    """Record inputs and settings in a folder that was checked; `force` empties it first."""
    if force and job.out.exists():
        make_empty(job.out)
    if _is_extended(job, identity):  # what has to be made again goes before the longer run is written down
        for path in (job.out / "summary.json", job.out / "model", job.out / "student-average"):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    claim(job.out / STATE, identity, _refusal(job), _MAY_CHANGE)


def _is_extended(job: FitJob, identity: dict[str, Any]) -> bool:
    """Say whether the student gets more updates than before; refuse that where it cannot be done."""
    before = check_record(job.out / STATE, identity, _refusal(job), _MAY_CHANGE)
    had, taught = before.get("teacher train.steps"), (job.out / "teacher-model").exists()
    if before and taught and job.teacher.train.steps != had:
        raise UserError(
            f"{job.out}: the teacher has been trained, with {had} updates, and the student learns from it as it is; "
            f"leave it so with --teacher-set train.steps={had}, or train both in another folder"
        )
    extension(job.out / "teacher", before, job.teacher.train, "teacher ")
    return extension(job.out / "student", before, job.student.train, "student ") is not None


def _refusal(job: FitJob) -> str:
    return f"{job.out} was begun with something else; use another folder, or --force to start over"


def _identity(job: FitJob) -> dict[str, Any]:
    identity: dict[str, Any] = {"hold_out": job.hold_out, "beam": job.beam, "with decoder": job.with_decoder}
    if job.given:
        identity |= {"teacher given": model_fingerprint(job.given), "from text alone": job.from_text_alone}
    for name, pairs in (("train", job.pairs), ("valid", job.valid), ("test", job.test)):
        files = [path for path in (pairs.src, pairs.tgt) if path] if pairs else []
        for path in files:
            if not path.is_file():
                raise UserError(f"{path}: no such file")
        identity[f"{name} files"] = fingerprint(*files) if files else None
    for name, config in (("teacher", job.teacher), ("student", job.student)):
        for section, values in config.model_dump(exclude={"preset"}).items():
            identity |= {f"{name} {section}.{key}": value for key, value in values.items() if key not in HARMLESS}
    return identity
