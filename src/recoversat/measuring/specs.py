"""What `recoversat evaluate` is asked for: systems and test sets, as written on the command line."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from recoversat.errors import UserError
from recoversat.measuring.named_specs import check_names, parse_named, split_name

_FORM = "NAME=PATH, e.g. k5=student:segments=5 or other=out.de"
_PLACEHOLDER = "{test}"


@dataclass(frozen=True)
class SystemSpec:
    """A system to evaluate: a model folder or run, a saved output (.jsonl) or a text file of translations."""

    name: str
    path: str  # may hold {test}, the name of the test set
    segments: int | Literal["auto"] | None = None
    beam: int = 1
    teacher: str | None = None  # judges the candidates of a one-step model (length-parallel decoding)
    lengths: int = 9
    overlaps: str | None = None  # "join" or "keep", whatever the model's own decode.join_overlaps
    target: str | None = None  # of a model of both directions: the language to translate into

    @property
    def kind(self) -> Literal["model", "file"]:
        """Say whether the system has to be run or has been."""
        return "model" if Path(self.path).is_dir() else "file"

    def file_for(self, test_set: str) -> Path:
        """Find the file that holds this system's translations of a test set."""
        return Path(self.path.replace(_PLACEHOLDER, test_set))


@dataclass(frozen=True)
class TestSpec:
    """A test set: its name and two aligned files."""

    __test__ = False  # pytest takes a class of this name for a group of tests

    name: str
    sources: Path
    references: Path


def parse_system(text: str) -> SystemSpec:
    """Read NAME=PATH[:segments=K or auto][:beam=N][:overlaps=join or keep][:to=LANGUAGE].

    Of a one-step model also [:teacher=PATH][:lengths=N].

    >>> parse_system("k5=student:segments=5").segments
    5
    """
    name, path, options = parse_named(text, _FORM, ("segments", "beam", "lengths"), ("to", "teacher", "overlaps"))
    if options.get("overlaps") not in (None, "join", "keep"):
        raise UserError(f"--system {text}: overlaps={options['overlaps']} is neither join nor keep")
    return SystemSpec(name, path, target=options.pop("to", None), **options)


def parse_test(text: str) -> TestSpec:
    """Read NAME=SOURCES,REFERENCES.

    >>> parse_test("ted=tst.en,tst.de").references
    PosixPath('tst.de')
    """
    form = "NAME=SOURCES,REFERENCES, e.g. ted=tst.en,tst.de"
    name, paths = split_name(text, "--test", form)
    files = paths.split(",")
    if len(files) != 2 or not all(files):
        raise UserError(f"--test {text}: write {form}")
    return TestSpec(name, Path(files[0]), Path(files[1]))


def check_specs(systems: Iterable[SystemSpec], tests: Iterable[TestSpec], roles: dict[str, str | None]) -> None:
    """Find what cannot work before anything is translated; `roles` maps an option to the system it names."""
    named, test_names = [spec.name for spec in systems], [spec.name for spec in tests]
    for option, names in (("--system", named), ("--test", test_names)):
        if not names:
            raise UserError(f"nothing to evaluate: give at least one {option}")
        check_names(names, option)
    for option, name in roles.items():
        if name is not None and name not in named:
            raise UserError(f"{option} {name}: no system has this name; there are: {', '.join(named)}")
    for spec in systems:
        _check_system(spec, test_names)


def _check_system(spec: SystemSpec, test_names: list[str]) -> None:
    if spec.kind == "model":
        return
    if spec.segments is not None or spec.beam != 1 or spec.target or spec.teacher or spec.overlaps:
        raise UserError(f"--system {spec.name}: the options are for models, but {spec.path} is no folder")
    if len(test_names) > 1 and _PLACEHOLDER not in spec.path:
        raise UserError(
            f"--system {spec.name}: one file cannot translate {len(test_names)} test sets;"
            f" write {_PLACEHOLDER} where their names stand, e.g. {spec.name}=out/{_PLACEHOLDER}.de"
        )
    for test_name in test_names:
        if not spec.file_for(test_name).is_file():
            raise UserError(
                f"--system {spec.name}: {spec.file_for(test_name)} is neither a model folder nor a file of translations"
            )
