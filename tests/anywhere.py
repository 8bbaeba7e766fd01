"""`make test-anywhere`: the tests that compute, under other instruction sets, numbers of threads and kernel kits.

A test that depends on the order in which a processor adds up is green here and red elsewhere: this finds it on one
machine. `python -m tests.anywhere WORD` runs the settings with WORD in their name. The table is in CONTRIBUTING.md.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.conftest import NOT_TESTED
from tests.processors import kits_here

ROOT = Path(__file__).resolve().parent.parent
ENGINE_IN_CPP = ["tests/unit/engines/native"]
COMPUTING = [  # learning, parity and engines
    "tests/parity", "tests/unit/engines", "tests/unit/model", "tests/unit/training", "tests/system/test_toy.py",
    "tests/system/test_builtin.py",
]  # fmt: skip
VARIABLES = {
    "ONEDNN_MAX_CPU_ISA": ["AVX2", "AVX512_CORE", "AVX512_CORE_AMX"],
    "ATEN_CPU_CAPABILITY": ["default", "avx2"],
    "MKL_ENABLE_INSTRUCTIONS": ["SSE4_2", "AVX2"],
    "OMP_NUM_THREADS": ["1", "2", "8"],
}
KIT = "RECOVERSAT_KIT"


class Setting(NamedTuple):
    """A variable of the environment, and the tests it may matter to."""

    name: str
    value: str
    tests: list[str]


class Outcome(NamedTuple):
    """What a run of pytest came to; `reasons` says of the tests that were left out, or of a part of them, why."""

    passed: int
    failed: list[str]
    reasons: Counter[str]


def settings() -> list[Setting]:
    """List the settings; an instruction set that a processor lacks changes nothing."""
    found = [Setting(name, value, COMPUTING) for name, values in VARIABLES.items() for value in values]
    return found + [Setting(KIT, kit, ENGINE_IN_CPP) for kit in kits_here()]


def run(setting: Setting) -> Outcome:
    """Run the tests with one variable set, and one thread where it is not the number of threads."""
    environment = {"OMP_NUM_THREADS": "1"} | os.environ | {setting.name: setting.value}
    if setting.name == KIT and (kit := kit_of(environment)) != setting.value:
        return Outcome(0, [f"the engine runs kit {kit}"], Counter())
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", *setting.tests, "-n", "2", "--dist", "loadfile"]
        command += ["-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode > 1:  # 1: some tests failed
            sys.exit(done.stdout + done.stderr)
        return outcome(report.read_text(encoding="utf-8"))


def kit_of(environment: dict[str, str]) -> str:
    """Say which kit the engine in C++ runs by default."""
    program = "from recoversat import Translator; t = Translator(target='de', compute_type='int8'); "
    program += "print(t.engine.description['engine'].split()[1])"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def outcome(report: str) -> Outcome:
    """Read what pytest writes for JUnit."""
    passed, failed, reasons = 0, [], Counter[str]()
    for case in ElementTree.fromstring(report).iter("testcase"):
        reasons.update(p.get("value", "") for p in case.iter("property") if p.get("name") == NOT_TESTED)
        skipped = case.find("skipped")
        if skipped is not None:
            reasons[skipped.get("message", "")] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('file') or case.get('classname')}::{case.get('name')}")
        else:
            passed += 1
    return Outcome(passed, failed, reasons)


def processor() -> str:
    """Name the kind of this processor, and the instruction sets that matter here."""
    known = Path("/proc/cpuinfo")
    text = known.read_text(encoding="utf-8") if known.is_file() else ""
    names = re.findall(r"^(?:vendor_id|cpu family|model|model name)\s*:\s*(.*)$", text, re.MULTILINE)[:4]
    flags = set(" ".join(re.findall(r"^flags\s*:\s*(.*)$", text, re.MULTILINE)[:1]).split())
    has = [flag for flag in ("avx2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8") if flag in flags]
    return (
        f"{' '.join(names) or platform.processor() or platform.machine()}: {', '.join(has) or 'none of its sets known'}"
    )


def main() -> None:
    chosen = [one for one in settings() if all(word in f"{one.name}={one.value}" for word in sys.argv[1:])]
    print(f"{processor()}\n\n| Setting | Passed | Failed | Not tested |\n| --- | ---: | ---: | ---: |", flush=True)
    failed, reasons = 0, Counter[str]()
    for one in chosen:
        found = run(one)
        failed += len(found.failed)
        reasons |= found.reasons
        numbers = f"{found.passed:,} | {len(found.failed)} | {found.reasons.total()}"
        print(f"| `{one.name}={one.value}` | {numbers} |", flush=True)
        print(*found.failed, sep="\n", end="\n" * bool(found.failed), file=sys.stderr, flush=True)
    print("\nNot tested:", *(f"- {why} ({count})" for why, count in sorted(reasons.items())), sep="\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
