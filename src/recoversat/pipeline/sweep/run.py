"""`recoversat sweep`: train every variant, evaluate them all, print the ablation tables.

OUT/base.yaml and OUT/configs say what is trained, OUT/runs/NAME is a training run like any other,
OUT/logs what it printed, OUT/report the evaluation. Variants with the same settings share a run.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from recoversat.config import Config, load_config, to_yaml
from recoversat.data.corpus import Corpus, open_corpus
from recoversat.errors import UserError
from recoversat.files.model_folder import checkpoint_folder, resolve_model
from recoversat.files.storage import held, read_json, write_text
from recoversat.measuring.quality.paper import Figures, Study, ablation_table, figures_of, studies
from recoversat.measuring.quality.results import EvaluationPlan, Result
from recoversat.measuring.quality.run import Evaluated, Request, run_evaluation
from recoversat.measuring.reports.table import Table, without_empty_columns
from recoversat.measuring.specs import SystemSpec, TestSpec, parse_system, parse_test
from recoversat.pipeline.options import SweepOptions
from recoversat.pipeline.sweep.jobs import Job, run_jobs
from recoversat.pipeline.sweep.variants import SweepFile, Variant, read_sweep

AT = "AT"  # the name of the autoregressive system in a sweep's report
_COLUMNS = ("BLEU", "Rep", "Mis", "Step")  # of a table that the paper does not have
_AT_WORK = "another sweep, or a training that one left behind, is at work here; wait for it or stop it"


def run_sweep(options: SweepOptions, tell: Callable[[str], None]) -> tuple[Evaluated | None, dict[str, str]]:
    """Train the variants that are not trained yet, evaluate all that are; say why some are not, by name."""
    sweep, out = read_sweep(options.file), options.out
    if options.corpus is None and sweep.corpus is None:
        raise UserError("no corpus to train on; name one: --corpus FOLDER")
    corpus = open_corpus(options.corpus or Path(str(sweep.corpus)))
    request = _request(sweep, options, corpus)  # first: a wrong path must not show after days of training
    teacher = _teacher(sweep, options)
    with held(out, _AT_WORK, patience=0) as held_file:
        write_text(out / "base.yaml", yaml.safe_dump(sweep.config, sort_keys=False))
        run_of, configs = _runs(sweep.variants, out, options)
        jobs = [
            _job(name, config, out, corpus, teacher, options)
            for name, config in configs.items()
            if not _is_trained(out / "runs" / name, config, corpus, teacher, options.init_decoder)
        ]
        tell(f"{len(configs)} runs, {len(configs) - len(jobs)} of them trained already")
        failed = run_jobs(jobs, options.jobs, tell, held_file)
        finished = [SystemSpec(name, str(out / "runs" / name)) for name in configs if name not in failed]
        if not finished:
            return None, failed
        asked = replace(request, systems=[*request.systems, *finished])
        published = studies(next(iter(configs.values())).preset, corpus.config.src_lang, corpus.config.tgt_lang)
        evaluated = run_evaluation(asked, lambda found, _: ablation_tables(sweep.variants, run_of, found, published))
        return evaluated, failed


def _runs(
    variants: Sequence[Variant], out: Path, options: SweepOptions
) -> tuple[dict[Variant, str], dict[str, Config]]:
    """Give each variant a run; those with the same settings (p = 1->0, q = 0.5) share the first one's."""
    names: dict[str, str] = {}
    run_of: dict[Variant, str] = {}
    configs: dict[str, Config] = {}
    for variant in variants:
        config = load_config(out / "base.yaml", options.preset, [*(options.settings or ()), *variant.overrides])
        name = names.setdefault(to_yaml(config), variant.name)
        if name == variant.name and configs.setdefault(name, config) != config:
            raise UserError(f"two variants are named {name}; give one of them another name")
        run_of[variant] = name
    return run_of, configs


def _job(name: str, config: Config, out: Path, corpus: Corpus, teacher: Path | None, options: SweepOptions) -> Job:
    path = out / "configs" / f"{name}.yaml"
    write_text(path, to_yaml(config))
    command = [sys.executable, "-m", "recoversat", "train", str(corpus.folder), "--out", str(out / "runs" / name)]
    command += ["--config", str(path), "--device", options.device]
    if teacher:
        command += ["--init-from", str(teacher), *(["--init-decoder"] if options.init_decoder else [])]
    return Job(name, command, out / "logs" / f"{name}.log")


def _is_trained(run: Path, config: Config, corpus: Corpus, teacher: Path | None, with_decoder: bool) -> bool:
    """Say whether a run has ended with just these settings; in doubt `train` itself is asked."""
    if not checkpoint_folder(run, config.train.steps).is_dir():
        return False
    from recoversat.training.loop import start_point  # needs torch

    facts = read_json(run / "run.json", "training run")
    started, start = load_config(run / "config.yaml"), start_point(teacher, with_decoder)
    model = config.model.model_copy(update={"vocab_size": started.model.vocab_size})
    return (
        (started.train, started.model) == (config.train, model)
        and facts.get("corpus") == corpus.fingerprint
        and facts.get("initialised_from") == (start.fingerprint if start else None)
    )


def _request(sweep: SweepFile, options: SweepOptions, corpus: Corpus) -> Request:
    """Say what the runs are compared with, and on what: the corpus's validation text where no test set is given."""
    tests = [parse_test(text) for text in options.tests]
    for name, files in sweep.test.items() if not tests else ():
        if not isinstance(files, list) or len(files) != 2:
            raise UserError(f"test: {name}: expected [SOURCES, REFERENCES], found {files!r}")
        tests.append(TestSpec(str(name), Path(files[0]), Path(files[1])))
    if not tests:
        if not corpus.valid_src:
            raise UserError(f"{corpus.folder} has no validation text; name a test set: --test ted=tst.en,tst.de")
        tests = [TestSpec("valid", corpus.folder / "valid.src", corpus.folder / "valid.tgt")]
    for path in (path for test in tests for path in (test.sources, test.references)):
        if not path.is_file():
            raise UserError(f"{path}: no such file")
    at = options.at or sweep.at
    systems = [*([parse_system(f"{AT}={at}")] if at else []), *map(parse_system, options.systems)]
    for spec in systems:
        resolve_model(Path(spec.path))
    plan, title = EvaluationPlan(at_system=AT if at else None), f"Sweep {options.file.stem}"
    how = options.batch_size, options.device, options.latency
    return Request(systems, tests, options.out / "report", plan, *how, title=title)


def _teacher(sweep: SweepFile, options: SweepOptions) -> Path | None:
    teacher = options.init_from or (Path(sweep.init_from) if sweep.init_from else None)
    if options.init_decoder and not teacher:
        raise UserError("--init-decoder starts from a teacher's decoder: add --init-from TEACHER")
    return teacher


def ablation_tables(
    variants: Sequence[Variant],
    run_of: Mapping[Variant, str],
    results: Sequence[Result],
    published: Mapping[str, Study],
) -> list[Table]:
    """Make a table for each thing that varies and each test set; `run_of` names a variant's system.

    `published` holds the paper's table for each thing that varies, where it has one.
    """
    test_sets = list(dict.fromkeys(result.output.test_set for result in results))
    axes = list(dict.fromkeys(variant.axis for variant in variants))
    tables = []
    for axis in axes:
        along = {variant.label: run_of[variant] for variant in variants if variant.axis == axis}
        for test_set in test_sets:
            here = {result.output.name: result for result in results if result.output.test_set == test_set}
            if any(system in here for system in along.values()):
                tables.append(_table(axis, along, here, test_set, published.get(axis)))
    return tables


def _table(
    axis: str, along: Mapping[str, str], here: Mapping[str, Result], test_set: str, study: Study | None
) -> Table:
    at_system = here.get(AT)
    at_latency = at_system.output.latency_ms if at_system else None
    rows = {**{name: name for name in study.rows if name in here}, **along} if study else along  # AT, NAT
    measured: dict[float | str, Figures] = {
        label: figures_of(here[system], at_latency) for label, system in rows.items() if system in here
    }
    if study is None:  # the paper has no such table: ours stand alone
        table = without_empty_columns(ablation_table(Study(axis, f"Effect of {axis}", _COLUMNS, {}), measured))
        table = replace(table, notes=[])
    else:
        table = ablation_table(study, measured)
    return replace(table, caption=f"{table.caption}; ours on {test_set}")
