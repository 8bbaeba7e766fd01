"""The whole road in one command: prepare, teacher, average, distill, student, average, report.

Every stage writes its result under its final name only when it is complete, and continues where it was
killed; so the state of the whole is which results exist.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from recoversat.config import Config
from recoversat.data.corpus import open_corpus
from recoversat.data.prepare import prepare
from recoversat.errors import UserError
from recoversat.files.model_folder import checkpoint_folder, checkpoint_folders, read_config, resolve_model
from recoversat.files.storage import atomic_folder, held, lines_of, read_json, sweep_partial, write_json, write_text
from recoversat.inference.repairs import REPAIRS
from recoversat.pipeline.distill import distill
from recoversat.pipeline.fit_job import HELD_OUT, FitJob, check_folder, check_place, check_settings, claim_folder
from recoversat.pipeline.options import DistillOptions
from recoversat.text.directions import direction_tag

_UNMEASURED = (
    f"nothing to measure, as there is no validation text (fewer than {HELD_OUT} pairs leave none);"
    " add --valid-src and --valid-tgt, or --test-src and --test-tgt"
)
_AT_WORK = "another `fit` is at work here; wait for it or stop it"


@dataclass(frozen=True)
class Stage:
    """One step of the road: what it does, what exists when it is done."""

    name: str
    plan: str
    result: Path
    run: Callable[[str], None]  # gets its title for the progress display


def fit(job: FitJob, *, force: bool = False, dry_run: bool = False) -> None:
    """Run every stage that is not done yet; a plan is printed first, and what cannot work is refused."""
    check_settings(job)
    stages = _stages(job)
    job.say(_plan_text(job, stages))
    if dry_run:
        with held(job.out, _AT_WORK, patience=0) if job.out.exists() else nullcontext():
            check_folder(job, force)
        return
    check_place(job.out)
    with held(job.out, _AT_WORK):
        claim_folder(job, check_folder(job, force), force)
        _run(job, stages)


def _run(job: FitJob, stages: list[Stage]) -> None:
    if (job.out / "summary.json").exists():
        job.say(f"finished already, nothing to do\n{_summary_text(job)}")
        return
    sweep_partial(job.out)
    for number, stage in enumerate(stages, 1):
        title = f"[{number}/{len(stages)}] {stage.name}"
        if stage.result.exists():
            job.say(f"{title}: done before")
            continue
        job.say(f"{title}: {stage.plan}")
        stage.run(title)
    job.say(_summary_text(job))


def _stages(job: FitJob) -> list[Stage]:
    out = job.out
    student, start_from = job.student.train, None if job.from_text_alone else out / "teacher-model"
    start = f"from the teacher's {'weights' if job.with_decoder else 'encoder'}"
    measured = "BLEU, chrF, TER, Rep, Mis, Step of teacher and student, learning curves, examples"
    return [
        Stage("corpus", f"tokenise and filter into {out / 'corpus'}", out / "corpus", lambda t: _prepare(job, t)),
        *_teacher_stages(job),
        Stage("distill", f"translate the training text, beam {job.beam}", out / "distilled",
              lambda t: _distill(job, t)),
        Stage(
            "student",
            f"train RecoverSAT, K = {student.segments}, {student.steps:,} updates of {student.batch_tokens:,} tokens,"
            f" {'from its text alone' if job.from_text_alone else start}",
            checkpoint_folder(out / "student", student.steps),
            lambda t: _train(job, t, job.student, "distilled", "student", start_from),
        ),
        Stage("model", "average its last checkpoints; keep what validates best", out / "model",
              lambda t: _choose_model(job, "student", "distilled")),
        Stage("report", measured if job.valid or job.test or job.hold_out else _UNMEASURED, out / "summary.json",
              lambda t: _report(job)),
    ]  # fmt: skip


def _teacher_stages(job: FitJob) -> list[Stage]:
    """Train a teacher, or take the one that is given."""
    if job.given:
        return [Stage("teacher model", f"copy {job.given}", job.out / "teacher-model", lambda t: _copy_teacher(job))]
    train = job.teacher.train
    return [
        Stage(
            "teacher",
            f"train an autoregressive teacher, {train.steps:,} updates of {train.batch_tokens:,} tokens",
            checkpoint_folder(job.out / "teacher", train.steps),
            lambda t: _train(job, t, job.teacher, "corpus", "teacher", None),
        ),
        Stage("teacher model", "average its last checkpoints; keep what validates best", job.out / "teacher-model",
              lambda t: _choose_model(job, "teacher", "corpus")),
    ]  # fmt: skip


def _copy_teacher(job: FitJob) -> None:
    assert job.given
    with atomic_folder(job.out / "teacher-model") as folder:
        shutil.copytree(job.given, folder, dirs_exist_ok=True)


def _prepare(job: FitJob, title: str) -> None:
    report = prepare(
        job.pairs, job.out / "corpus", job.student.data, valid=job.valid, hold_out=job.hold_out,
        tokenizer_from=job.given, title=title,
    )  # fmt: skip
    job.say(report.as_text())


def _train(job: FitJob, title: str, config: Config, corpus_name: str, run_name: str, teacher: Path | None) -> None:
    from recoversat.measuring.quality.validation import bleu_validator
    from recoversat.training.loop import start_point, train

    corpus = open_corpus(job.out / corpus_name)
    validate, start = bleu_validator(corpus, config), start_point(teacher, job.with_decoder)
    train(config, corpus, job.out / run_name, validate=validate, start_from=start, device=job.device, title=title)


def _choose_model(job: FitJob, run_name: str, corpus_name: str) -> None:
    """Keep the averaged model or the best checkpoint, whichever validates better."""
    from recoversat.measuring.quality.validation import bleu_validator
    from recoversat.model.device import torch_device
    from recoversat.model.weights import load_model
    from recoversat.training.checkpoint import average_models

    run, out = job.out / run_name, job.out / ("teacher-model" if run_name == "teacher" else "model")
    averaged = job.out / f"{run_name}-average"
    if not averaged.exists():
        average_models(_whole_checkpoints(run), averaged)
    candidates = [path for path in (averaged, run / "best") if path.exists()]
    corpus = open_corpus(job.out / corpus_name)
    scores = {}
    for path in candidates:
        model, config = load_model(path)
        validate = bleu_validator(corpus, config)
        if validate:
            scores[path] = validate(model.to(torch_device(job.device)))
    chosen = max(candidates, key=lambda path: scores.get(path, 0.0))
    found = ", ".join(f"{path.name}: {score:.2f} BLEU" for path, score in scores.items()) or "no validation text"
    job.say(f"  {found}; kept {chosen.name}")
    with atomic_folder(out) as folder:
        shutil.copytree(chosen, folder, dirs_exist_ok=True)


def _whole_checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints that can be read; where the last is not among them, training has to go on first."""
    from recoversat.training.checkpoint import read_checkpoint, set_aside

    *_, last = folders = checkpoint_folders(run)
    damaged = {}
    for folder in folders:
        try:
            read_checkpoint(folder)
        except UserError as error:
            damaged[folder] = str(error)
    set_aside(damaged)
    if last in damaged:
        raise UserError(f"{run}: its last checkpoint was damaged; the same command trains on from the one before")
    return [folder for folder in folders if folder not in damaged]


def _distill(job: FitJob, title: str) -> None:
    teacher, corpus, out = (job.out / name for name in ("teacher-model", "corpus", "distilled"))
    report = distill(DistillOptions(teacher, corpus, out, job.beam, device=job.device), title)
    job.say("  " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in report.items() if value is not None))


def _report(job: FitJob) -> None:
    from recoversat.measuring.quality.plots import read_learning_curve
    from recoversat.measuring.quality.results import EvaluationPlan
    from recoversat.measuring.quality.run import Request, run_evaluation
    from recoversat.measuring.quality.tables import examples_table, results_table
    from recoversat.measuring.reports.table import to_markdown
    from recoversat.measuring.specs import SystemSpec, TestSpec

    out = job.out
    corpus = open_corpus(out / "corpus")
    tests = [TestSpec("valid", out / "corpus" / "valid.src", out / "corpus" / "valid.tgt")] if corpus.valid_src else []
    tests += [TestSpec(*files) for files in _test_files(job)]
    if not tests:
        write_json(out / "summary.json", {"systems": []})
        return
    teacher, model = str(out / "teacher-model"), str(out / "model")
    choices = job.student.train.segment_choices
    systems = [SystemSpec("AT greedy", teacher), SystemSpec(f"AT beam {job.beam}", teacher, beam=job.beam)]
    systems += [SystemSpec(f"RecoverSAT K={k}", model, segments=k) for k in choices]
    plan = EvaluationPlan(at_system=f"AT beam {job.beam}", baseline=f"AT beam {job.beam}")
    title = f"fit, {job.student.data.languages}"
    curves = {name: read_learning_curve(out / name) for name in ("teacher", "student") if (out / name).is_dir()}
    request = Request(systems, tests, out / "report", plan, device=job.device, title=title, curves=curves)
    shown = [f"AT beam {job.beam}", f"RecoverSAT K={max(choices)}"]  # teacher and student
    evaluated = run_evaluation(request, lambda results, sets: [examples_table(sets[-1], results, shown)])
    job.say(to_markdown(results_table(evaluated.results)))
    figures = []
    for result in evaluated.results:
        bleu, step = round(result.quality["bleu"].value, 2), round(result.steps.mean, 2) if result.steps else None
        names = {"system": result.output.name, "test_set": result.output.test_set}
        figures.append({**names, "bleu": bleu, "step": step})
    write_json(out / "summary.json", {"systems": figures})


def _test_files(job: FitJob) -> Iterator[tuple[str, Path, Path]]:
    """Yield the test set; for a model of both directions once each way, its sources tagged as validation text is."""
    if not job.test or not job.test.tgt:
        return
    if not job.student.data.both_directions:
        yield "test", job.test.src, job.test.tgt
        return
    sides = (job.test.src, job.test.tgt)
    for (one, other), (source, target) in zip((sides, sides[::-1]), job.student.data.directions, strict=True):
        name, tag = f"test {source}-{target}", direction_tag(target)
        tagged = job.out / f"{name}.src"
        write_text(tagged, "".join(f"{tag}{line}\n" for line in lines_of(one)))
        yield name, tagged, other


def _plan_text(job: FitJob, stages: list[Stage]) -> str:
    data, model, k = job.student.data, job.student.model, job.student.train.segments
    sizes = f"{model.encoder_layers}+{model.decoder_layers} layers of {model.d_model}/{model.d_hidden}"
    repairs = [name for name, value in job.student.decode if name in REPAIRS and value]
    lines = [
        f"fit: {data.languages}, K = {k}, {sizes}, {data.vocab_size:,} pieces",
        f"  repairs of what the student writes: {', '.join(repairs) or 'none, as in the paper'}",
        *([f"  note: {job.student.advice}"] if job.student.advice else []),
    ]
    for n, stage in enumerate(stages, 1):
        lines.append(f"  {n}. {stage.name}: {stage.plan}{' (done before)' if stage.result.exists() else ''}")
    return "\n".join(lines)


def _summary_text(job: FitJob) -> str:
    figures = read_json(job.out / "summary.json", "fit folder")["systems"]
    lines = [
        f"  {f['test_set']:>10} {f['system']:<18} BLEU {f['bleu']:6.2f}"
        + (f"  Step {f['step']:.2f}" if f["step"] else "")
        for f in figures
    ]
    config, _ = read_config(resolve_model(job.out / "model"))
    where = [
        f"model    {job.out / 'model'}   (recoversat translate --model {job.out / 'model'})",
        f"teacher  {job.out / 'teacher-model'}",
        f"report   {job.out / 'report' if figures else _UNMEASURED}",
    ]
    return "\n".join([config.data.languages, *lines, *where])
