"""Run commands, several at a time, that stop politely when we are asked to stop."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recoversat.errors import UserError
from recoversat.pipeline.stopping import stop_signals

_POLL_SECONDS = 0.1
_LAST_LINES = 5


@dataclass(frozen=True)
class Job:
    """A command and the file its output is added to."""

    name: str
    command: list[str]
    log: Path


def run_jobs(jobs: Sequence[Job], at_once: int, tell: Callable[[str], None], held_file: int) -> dict[str, str]:
    """Run all jobs, `at_once` at a time; return why some failed, by name.

    A failing job does not stop the others. Ctrl-C and a polite kill are passed on once to each running
    job, which saves and ends; then the sweep ends. `held_file` stays open in the jobs, so that one which outlives
    a killed sweep keeps a second sweep from training into the same run.
    """
    waiting, running, failed = list(jobs), dict[str, subprocess.Popen[bytes]](), dict[str, str]()
    logs = {job.name: (job.log, job.log.stat().st_size if job.log.exists() else 0) for job in jobs}
    asked: list[int] = []  # signals to stop
    with stop_signals(lambda number, _: asked.append(number)):
        passed_on = 0
        while waiting or running:
            while waiting and len(running) < at_once and not asked:
                job = waiting.pop(0)
                tell(f"{job.name}: training, log in {job.log}")
                running[job.name] = _start(job, at_once, held_file)
            while passed_on < len(asked):
                passed_on += 1
                waiting.clear()
                for process in running.values():
                    process.send_signal(signal.SIGINT)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                code = running.pop(name).returncode
                if code and not asked:
                    failed[name] = _last_lines(*logs[name])
                tell(f"{name}: {'done' if code == 0 else 'stopped' if asked else 'failed'}")
            time.sleep(_POLL_SECONDS if running else 0)
    if asked:
        raise UserError("stopped; what is finished is kept, and the same command continues from there")
    return failed


def _start(job: Job, at_once: int, held_file: int) -> subprocess.Popen[bytes]:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    threads = str(max((os.cpu_count() or 1) // at_once, 1))
    environment = {"OMP_NUM_THREADS": threads, **os.environ}  # lest the jobs fight for the processors
    with open(job.log, "ab") as log:
        return subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # a terminal's Ctrl-C must not reach a job twice, from it and from us
            pass_fds=(held_file,),
        )


def _last_lines(log: Path, start: int) -> str:
    """Quote the end of what was added to a log after its first `start` bytes."""
    lines = log.read_bytes()[start:].decode("utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])
