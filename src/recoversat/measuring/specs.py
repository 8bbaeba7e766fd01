"""What `evaluate` and `bench` are asked to measure: systems and test sets, as written on the command line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from recoversat.config import DECODE_SETTINGS
from recoversat.errors import UserError
from recoversat.files.model_folder import builtin_model

_NUMBERS = ("segments", "beam", "threads", "lengths", "writes")
_CHOICES = {
    "compute": ("default", "int8", "int8_onnx", "int8_native", "float32", "float16", "bfloat16", "int8_float16"),
    "overlaps": ("join", "keep"),
    "repairs": ("model", "none"),
}
_OPTIONS = (*_NUMBERS, *_CHOICES, "to", "teacher")
_SETTINGS = sorted({*DECODE_SETTINGS}.difference(_OPTIONS))  # any other setting of `decode` is an option too
_FORM = "NAME=PATH, e.g. k5=student:segments=5 or other=out.de"
_PLACEHOLDER = "{test}"
_PATH_AND_OPTIONS = re.compile(r"(.+?)((?::\w+=[^:=]+)*)", re.DOTALL)
_NAME = re.compile(r"[\w+@-][\w.+@ -]*")  # it becomes a file's name


@dataclass(frozen=True)
class SystemSpec:
    """A system to measure: a model folder, ours or a peer's, and how it decodes; or translations in a file."""

    name: str
    path: str  # of a file it may hold {test}, the name of the test set
    segments: int | Literal["auto"] | None = None  # None = the model's own
    beam: int = 1
    compute: str = "default"
    threads: int | None = None  # None = all, or each number that `bench` tries
    target: str | None = None  # of a model of both directions: the language to translate into
    teacher: str | None = None  # judges the candidates of a one-step model (length-parallel decoding)
    lengths: int | None = None  # that a one-step model is written in; None = 9 with a teacher, else decode.lengths
    writes: int | None = None  # tokens of every translation of an untrained model, which is timed and never scored
    decode: dict[str, str] = field(default_factory=dict)  # settings of `decode`, as they were written
    unavailable: str | None = None  # why it cannot be measured, known beforehand

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


def without_repairs(systems: Sequence[SystemSpec]) -> list[SystemSpec]:
    """Let every model decode as the paper does."""
    paper = {"repairs": "none"}
    return [replace(spec, decode=spec.decode | paper) if spec.kind == "model" else spec for spec in systems]


def parse_system(text: str) -> SystemSpec:
    """Read NAME=PATH and its options, each written :key=value.

    >>> spec = parse_system("k5=student:segments=5:to=de")
    >>> spec.name, spec.path, spec.segments, spec.target
    ('k5', 'student', 5, 'de')
    """
    name, rest = _split_name(text, "--system", _FORM)
    match = _PATH_AND_OPTIONS.fullmatch(rest)
    assert match  # whatever is no option belongs to the path
    options = dict(part.split("=", 1) for part in match[2].split(":")[1:])
    decode = {key: value for key, value in options.items() if key in _SETTINGS}
    own = {key: _value(text, key, value) for key, value in options.items() if key not in decode}
    if "overlaps" in own:
        decode["join_overlaps"] = str(own.pop("overlaps") == "join").lower()
    decode |= {"repairs": own.pop("repairs")} if "repairs" in own else {}
    values = {"target" if key == "to" else key: value for key, value in own.items()}
    return SystemSpec(name, match[1], **values, decode=decode)


def _value(text: str, key: str, value: str) -> Any:
    if key not in _OPTIONS:
        known = ", ".join((*_OPTIONS, *_SETTINGS))
        raise UserError(f"--system {text}: no option {key}; there are {known}, e.g. :segments=5")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise UserError(f"--system {text}: {key} must be one of {', '.join(_CHOICES[key])}, not {value!r}")
    if key not in _NUMBERS or (key, value) == ("segments", "auto"):
        return value
    if not value.isdecimal() or int(value) < 1:
        raise UserError(f"--system {text}: {key} must be a whole number from 1, not {value!r}")
    return int(value)


def builtin_systems(target: str | None) -> list[SystemSpec]:
    """List the built-in model at several K, for those who name no system."""
    folder = str(builtin_model(None, target))
    chosen: dict[str, int | Literal["auto"]] = {"AT greedy": 1, "K2": 2, "K5": 5, "K10": 10, "auto": "auto"}
    return [SystemSpec(name, folder, k, target=target) for name, k in chosen.items()]


def parse_test(text: str) -> TestSpec:
    """Read NAME=SOURCES,REFERENCES.

    >>> parse_test("ted=tst.en,tst.de").references
    PosixPath('tst.de')
    """
    form = "NAME=SOURCES,REFERENCES, e.g. ted=tst.en,tst.de"
    name, paths = _split_name(text, "--test", form)
    files = paths.split(",")
    if len(files) != 2 or not all(files):
        raise UserError(f"--test {text}: write {form}")
    return TestSpec(name, Path(files[0]), Path(files[1]))


def check_evaluation(systems: Sequence[SystemSpec], tests: Sequence[TestSpec], roles: dict[str, str | None]) -> None:
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
        if spec.kind == "file":
            _check_files(spec, test_names)
        if spec.writes:
            raise UserError(f"--system {spec.name}: an untrained model has no quality; :writes is for bench alone")


def _check_files(spec: SystemSpec, test_names: list[str]) -> None:
    if spec != SystemSpec(spec.name, spec.path):
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


def check_names(names: Sequence[str], option: str) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{option}: the name {twice[0]} is given twice; each needs its own")


def _split_name(text: str, option: str, form: str) -> tuple[str, str]:
    """Cut NAME=REST in two; `form` is what should have been written."""
    name, _, rest = text.partition("=")
    if not name or not rest:
        raise UserError(f"{option} {text}: write {form}")
    if not _NAME.fullmatch(name):
        raise UserError(f"{option} {text}: {name!r} cannot be a name; use letters, digits, spaces and . _ - + @")
    return name, rest
