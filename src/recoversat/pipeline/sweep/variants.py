"""What a sweep file says: a base configuration and what varies over it.

config: {preset: iwslt16, train: {segments: 10}}
vary:                          # each alone, everything else as in config
  p: [0, 0.5, 1, 1->0]         # also q, K, cut_at, train_on_copies and any section.key
variants:                      # settings that belong together, under a name of your own
  wide: {model.d_model: 512, model.n_heads: 8}
corpus: distilled              # these may also be given on the command line, which wins
init_from: teacher
at: teacher
test: {ted: [tst2013.en, tst2013.de]}
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recoversat.config import did_you_mean, read_yaml
from recoversat.errors import UserError
from recoversat.measuring.quality.paper import row_label

OWN = "variant"  # the axis of variants that have a name of their own

_KEYS = ("config", "vary", "variants", "corpus", "init_from", "at", "test")
_SHORT = {
    "q": "train.repeat_prob",
    "K": "train.segments",
    "cut_at": "train.cut_at",
    "train_on_copies": "train.train_on_copies",
}
_P = re.compile(r"([\d.]+)(\s*(?:->|→)\s*0(?:\.0)?)?")


@dataclass(frozen=True)
class Variant:
    """One value of what varies, and the `section.key=value` settings that make it so."""

    axis: str
    label: str
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name the variant's files: p=1to0, q=0.3, cut_at=word."""
        label = re.sub(r"[^\w.+-]+", "-", self.label.replace("->", "to"))
        return label if self.axis == OWN else f"{self.axis}={label}"


@dataclass(frozen=True)
class SweepFile:
    """A sweep file, checked; paths are as written, relative to where the command runs."""

    config: dict[str, Any]
    variants: list[Variant]
    corpus: str | None = None
    init_from: str | None = None
    at: str | None = None
    test: dict[str, list[str]] = field(default_factory=dict)


def read_sweep(path: Path) -> SweepFile:
    """Read a sweep file; errors name the key and the fix."""
    values = _mapping(path, "the file", read_yaml(path, "file"))
    for key in values:
        if key not in _KEYS:
            fix = did_you_mean(key, _KEYS, f"there are: {', '.join(_KEYS)}")
            raise UserError(f"{path}: {key}: no such key; {fix}")
    vary = _mapping(path, "vary", values.get("vary"))
    own = _mapping(path, "variants", values.get("variants"))
    variants = [variant for axis, choices in vary.items() for variant in _along(path, str(axis), choices)]
    for name, settings in own.items():
        overrides = tuple(_override(key, value) for key, value in _mapping(path, f"variants: {name}", settings).items())
        variants.append(Variant(OWN, str(name), overrides))
    if not variants:
        raise UserError(f"{path}: nothing varies; add e.g. 'vary: {{q: [0, 0.5]}}'")
    config, test = (_mapping(path, key, values.get(key)) for key in ("config", "test"))
    return SweepFile(config, variants, values.get("corpus"), values.get("init_from"), values.get("at"), test)


def _along(path: Path, axis: str, choices: object) -> list[Variant]:
    if not isinstance(choices, list) or not choices:
        raise UserError(f"{path}: vary: {axis}: expected a list of values, e.g. [0, 0.5]")
    if axis == "p":
        return [_p_variant(path, choice) for choice in choices]
    key = _SHORT.get(axis, axis)
    if "." not in key:
        fix = did_you_mean(axis, ["p", *_SHORT], f"there are p, {', '.join(_SHORT)}, or any section.key")
        raise UserError(f"{path}: vary: {axis}: no such setting; {fix}")
    return [Variant(axis, _label(choice), (_override(key, choice),)) for choice in choices]


def _p_variant(path: Path, choice: object) -> Variant:
    match = _P.fullmatch(str(choice).strip())
    if not match:
        raise UserError(f"{path}: vary: p: {choice}: write a number from 0 to 1, or 1->0 for an annealed p")
    anneal = match[2] is not None
    overrides = (_override("train.random_prob", float(match[1])), _override("train.anneal", anneal))
    return Variant("p", row_label(f"{match[1]}->0" if anneal else match[1]), overrides)


def _label(choice: object) -> str:
    if isinstance(choice, bool) or not isinstance(choice, int | float):
        return json.dumps(choice).strip('"')
    return row_label(choice)


def _override(key: object, value: object) -> str:
    return f"{key}={json.dumps(value)}"  # JSON is YAML, on one line


def _mapping(path: Path, what: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{path}: {what}: expected keys with values below them, found {value!r}")
    return value
