"""The whole of `recoversat bench`: load, time in turn, compare, write."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from recoversat.engines.cores import cores
from recoversat.errors import UserError
from recoversat.files.storage import atomic_folder, lines_of, refuse_existing, write_json, write_text
from recoversat.measuring.peers import PEERS
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.reports.plots import write_plot
from recoversat.measuring.specs import SystemSpec, check_names
from recoversat.measuring.speed.machine import machine
from recoversat.measuring.speed.measure import Measured, Task, ask_each, make_tasks, measure
from recoversat.measuring.speed.pool import Worker
from recoversat.measuring.speed.report import report_text, speed_plots
from recoversat.measuring.speed.results import OURS, BenchResult, SystemFacts, facts_of, growth_of, ratios_of, rows_of
from recoversat.measuring.speed.untrained import build_untrained, sentences, untrained_config
from recoversat.pipeline.options import BenchOptions
from recoversat.show.progress import Bar, progress

_BATCHES = (1, 8, 32, 64)
_QUIET_ENOUGH = 0.1  # share of the machine that others may have
_GROWTH = (0.5, 2, 4)  # times the length, beside the length itself
_GROWTH_SENTENCES = 2
_BATCH = 32  # of text that is translated for its BLEU


def bench_text(systems: Sequence[SystemSpec], src: Path, asked: BenchOptions) -> BenchResult:
    """Time systems on sentences of a file, and score them where there are references."""
    check_names([system.name for system in systems], "--system")
    if not any(Path(system.path).exists() for system in systems):
        raise UserError(f"{systems[0].path}: no such model folder")
    refuse_existing(asked.out, asked.force)
    ref, sources = asked.ref, list(lines_of(src))
    references = list(lines_of(ref)) if ref else None
    if references is not None and len(references) != len(sources):
        raise UserError(f"{src} has {len(sources)} lines, {ref} has {len(references)}; they must be aligned")
    texts = _spread([line for line in sources if line.strip()], asked.sentences or 64)
    if not texts:
        raise UserError(f"{src}: no text to translate")
    outputs: dict[str, list[str]] = {}
    with _started(systems, asked, texts[0], None) as workers:
        measured = measure(workers, make_tasks(texts, asked.batch or _BATCHES), asked.rounds)
        lengths = ask_each(workers, lambda worker: list(worker.ask("measure", texts=texts)["lengths"]))
        if not measured.interrupted:  # who is in a hurry gets what was measured
            scored = [worker for worker in workers if not worker.system.writes]
            with progress("translate all", len(systems)) as bar:
                outputs = ask_each(scored, lambda worker: _write_all(worker, sources if references else texts, bar))
    result = _result(workers, measured, lengths, asked, {"src": str(src), "sentences": len(texts)})
    if references is not None:
        scores = {name: corpus_bleu(lines, references) for name, lines in outputs.items()}
        result.bleu.update({name: score.value for name, score in scores.items()})
        result.notes.extend(f"BLEU: {score.signature}" for score in list(scores.values())[:1])
    untrained = [f"{one.name} (untrained) writes {one.writes} tokens, not scored." for one in systems if one.writes]
    result.notes.extend(untrained)
    _compare_texts(result, outputs)
    _write(result, outputs, asked)
    return result


def bench_untrained(asked: BenchOptions) -> BenchResult:
    """Time untrained models that write a fixed number of tokens."""
    refuse_existing(asked.out, asked.force)
    segments, length = asked.segments or [10], asked.length
    config = untrained_config(asked.untrained or "", asked.vocab, segments)
    tasks = make_tasks(sentences(asked.sentences or 16, length, asked.vocab), asked.batch or _BATCHES, length)
    for times in _GROWTH:
        longer = max(1, round(times * length))
        texts = sentences(_GROWTH_SENTENCES, longer, asked.vocab)
        tasks.append(Task(1, [[text] for text in texts], longer, only_growth=True))
    with tempfile.TemporaryDirectory() as name:
        print("writing untrained models", file=sys.stderr, flush=True)
        systems = build_untrained(Path(name), config, segments, asked.device)
        with _started(systems, asked, tasks[0].batches[0][0], length) as workers:
            measured = measure(workers, tasks, asked.rounds)
    shape = config.model.model_dump(exclude={"kind", "dropout", "attention_dropout", "activation_dropout"})
    result = _result(workers, measured, {}, asked, {"untrained": shape, "length": length})
    steps = ", ".join(f"{-(-length // k) + 2} with K = {k}" for k in segments)
    result.notes.insert(
        0,
        f"Untrained models, sources of {length} tokens, translations of exactly {length}: {length} steps one by one, "
        f"{steps} (one segment a token longer than an even division).",
    )
    _write(result, {}, asked)
    return result


def _write_all(worker: Worker, texts: list[str], bar: Bar) -> list[str]:
    bar.advance(0, worker.system.name)
    written: list[str] = worker.ask("write", texts=texts, batch=_BATCH)["texts"]
    bar.advance(1, worker.system.name)
    return written


def thread_counts(asked: BenchOptions) -> list[int]:
    """Return the numbers of threads to try: on a CPU one and all there are, unless some are named."""
    return asked.threads or sorted({1, cores()} if asked.device == "cpu" else {cores()})


def _spread(lines: list[str], n: int) -> list[str]:
    """Take n lines from all over the file."""
    return [lines[i * len(lines) // n] for i in range(n)] if n < len(lines) else lines


@contextmanager
def _started(
    systems: Sequence[SystemSpec], asked: BenchOptions, first: str, length: int | None
) -> Iterator[list[Worker]]:
    """Load all systems, one after the other, so that the times of loading mean something; end them afterwards.

    Asked to load them `together` it is done sooner, and says nothing of those times.
    """
    workers = [
        Worker(system, asked.device, threads, asked.warm_up)
        for system in systems
        for threads in ((system.threads,) if system.threads else thread_counts(asked))
    ]
    try:
        if asked.together:
            with ThreadPoolExecutor(len(workers)) as starters:
                list(starters.map(lambda worker: worker.start(first, length), workers))
        for worker in workers:
            if not asked.together:
                worker.start(first, length)
            what = f"ready after {worker.start_s:.1f} s" if worker.alive else f"left out: {worker.error}"
            worker.start_s *= not asked.together
            print(f"{worker.system.name}, {worker.threads} thread(s): {what}", file=sys.stderr, flush=True)
        if not any(worker.alive for worker in workers):
            raise UserError("no system could be loaded: " + "; ".join(dict.fromkeys(str(w.error) for w in workers)))
        yield workers
    finally:
        for worker in workers:
            worker.close()


def _result(
    workers: Sequence[Worker], measured: Measured, lengths: dict[str, list[int]], asked: BenchOptions,
    more: dict[str, object],
) -> BenchResult:  # fmt: skip
    systems, rows = [facts_of(worker) for worker in workers], rows_of(measured)
    facts = {"batches": asked.batch or [*_BATCHES], "rounds": measured.rounds, "device": asked.device, **more}
    facts |= {"others_share": measured.others, "idle_cpu_s": max(t.idle_cpu_s for t in measured.timings)}
    notes = [*_notes(measured), *_notes_of_peers(systems)]
    return BenchResult(systems, rows, ratios_of(rows, systems), growth_of(measured, lengths), machine(), facts, notes)


def _notes(measured: Measured) -> list[str]:
    notes = [f"{measured.rounds} rounds, systems in turn, each in a process of its own; tokenisation is included."]
    if measured.interrupted:
        notes.append("Interrupted: fewer rounds than were asked for.")
    busy = " The machine was NOT quiet: measure again." if measured.others > _QUIET_ENOUGH else ""
    return [*notes, f"Other processes had {100 * measured.others:.0f} % of the machine meanwhile.{busy}"]


def _notes_of_peers(systems: Sequence[SystemFacts]) -> list[str]:
    """Say what must be known of those peers that were loaded."""
    families = {facts.family for facts in systems}
    return [peer.note for peer in PEERS if peer.note and peer.package in families]


def _compare_texts(result: BenchResult, outputs: dict[str, list[str]]) -> None:
    """Count the sentences that other autoregressive systems translate as our greedy one does."""
    greedy = [facts.name for facts in result.systems if facts.family == "at" and facts.beam == 1]
    peers = [facts.name for facts in result.systems if facts.family not in OURS and facts.beam == 1]
    for own in dict.fromkeys(greedy):
        for peer in dict.fromkeys(peers):
            if own in outputs and peer in outputs:
                same = sum(one == other for one, other in zip(outputs[own], outputs[peer], strict=True))
                result.same_text[f"{peer} = {own}"] = [same, len(outputs[own])]
                result.notes.append(f"{peer} writes what {own} writes in {same} of {len(outputs[own])} sentences.")


def _write(result: BenchResult, outputs: dict[str, list[str]], asked: BenchOptions) -> None:
    with atomic_folder(asked.out, replace=asked.force) as folder:
        try:
            plots = speed_plots(result)
        except UserError as error:  # no matplotlib: the figures are worth writing all the same
            plots = []
            result.notes.append(str(error))
        for plot in plots:
            write_plot(folder / "plots", plot)
        for name, lines in outputs.items():
            write_text(folder / "outputs" / f"{name}.txt", "".join(f"{line}\n" for line in lines))
        write_json(folder / "bench.json", result.as_json())
        write_text(folder / "bench.md", "# Speed\n\n" + report_text(result))
