"""Several commands at a time: none forgotten, never too many, all stopped politely."""

import signal
import sys

import pytest

from recoversat.errors import UserError
from recoversat.files.storage import held as hold
from recoversat.pipeline.sweep.jobs import Job, run_jobs


@pytest.fixture
def held(tmp_path):
    with hold(tmp_path / "sweep", "taken") as file:
        yield file


def job(folder, name, code):
    return Job(name, [sys.executable, "-c", code], folder / "logs" / f"{name}.log")


def test_all_jobs_run_and_only_so_many_at_a_time(tmp_path, held):
    """Each job counts those that run beside it; the last to start waits until it has seen its neighbour."""
    (tmp_path / "now").mkdir()
    code = """
import os, pathlib, sys, time
here = pathlib.Path({folder!r}) / "now"
(here / {name!r}).touch()
seen = 0
for _ in range(20):
    seen = max(seen, len(list(here.iterdir())))
    time.sleep(0.01)
print("seen", seen, "threads", os.environ["OMP_NUM_THREADS"])
(here / {name!r}).unlink()
"""
    jobs = [job(tmp_path, f"j{i}", code.format(folder=str(tmp_path), name=f"j{i}")) for i in range(5)]
    assert run_jobs(jobs, 2, lambda line: None, held) == {}
    counts = [int(each.log.read_text().split()[1]) for each in jobs]
    assert len(counts) == 5
    assert max(counts) == 2


def test_a_failing_job_is_reported_with_its_last_words_and_stops_nobody(tmp_path, held):
    told = []
    bad, good = job(tmp_path, "bad", "import sys; sys.exit('error: no such corpus')"), job(tmp_path, "good", "print(1)")
    bad.log.parent.mkdir()
    bad.log.write_text("from an earlier attempt\n")
    failed = run_jobs([bad, good], 1, told.append, held)
    assert failed == {"bad": "    error: no such corpus"}
    assert told[1:] == ["bad: failed", f"good: training, log in {good.log}", "good: done"]
    assert bad.log.read_text().startswith("from an earlier attempt\n")  # logs are added to


def test_a_job_is_out_of_the_terminals_reach_and_keeps_the_folder_claimed(tmp_path, held):
    """Its own process group hears no Ctrl-C but ours; the open file is what holds the lock."""
    code = f"import os; print(os.getpgrp() == os.getpid(), os.fstat({held}).st_ino)"
    asked = job(tmp_path, "a", code)
    assert run_jobs([asked], 1, lambda line: None, held) == {}
    assert asked.log.read_text() == f"True {(tmp_path / 'sweep').stat().st_ino}\n"


def test_an_interruption_reaches_each_job_once_and_starts_no_more(tmp_path, held):
    """The second job asks us to stop, as a person would, once both can hear it."""
    saving = """
import os, pathlib, signal, sys, time
folder = pathlib.Path({folder!r})
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
(folder / ({name!r} + ".ready")).touch()
while {name!r} == "b" and not (folder / "a.ready").exists():
    time.sleep(0.01)
if {name!r} == "b":
    os.kill(os.getppid(), signal.SIGINT)
while not heard:
    time.sleep(0.01)
time.sleep(0.3)  # a second signal would come now
print("heard", len(heard))
sys.exit(2)
"""
    jobs = [job(tmp_path, name, saving.format(folder=str(tmp_path), name=name)) for name in ("a", "b", "c")]
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(UserError, match="stopped; what is finished is kept"):
        run_jobs(jobs, 2, lambda line: None, held)
    assert [jobs[i].log.read_text() for i in (0, 1)] == ["heard 1\n", "heard 1\n"]
    assert not jobs[2].log.exists()
    assert signal.getsignal(signal.SIGINT) is before
