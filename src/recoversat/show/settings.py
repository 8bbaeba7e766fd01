"""Every setting on a page: key, default, values it may have, the paper's symbol, meaning."""

import json
from typing import Any

from recoversat.config import QUALITIES, Config, Section, did_you_mean, load_config
from recoversat.errors import UserError
from recoversat.measuring.reports.table import MISSING, Table, to_markdown

SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true, false", "string": "text", "array": "list"}
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
_HEAD = """# Settings

Give them as `--set section.key=value`, in a YAML file (`--config`) or by a preset (`--preset`); the first named wins.
`recoversat settings SECTION` prints one section, `--preset NAME` sets a preset's values beside the defaults.
"""


def settings_page(section: str | None = None, preset: str | None = None) -> str:
    """Write the settings of all sections, or of one, as Markdown."""
    if section and section not in SECTIONS:
        raise UserError(f"{section}: no such section; {did_you_mean(section, SECTIONS, ', '.join(SECTIONS))}")
    tables = [f"## {name}\n\n{to_markdown(_table(name, preset))}" for name in SECTIONS if section in (None, name)]
    return "\n".join(tables if section else [_HEAD, *tables])


def _table(name: str, preset: str | None) -> Table:
    section = SECTIONS[name]
    defaults, schema = getattr(Config(), name), section.model_json_schema()["properties"]
    chosen = getattr(load_config(preset=preset), name) if preset else None
    rows = []
    for key, field in section.model_fields.items():
        values = [_written(getattr(one, key)) for one in (defaults, chosen) if one]
        symbol, meaning = field.title or "", field.description or ""
        rows.append([f"{name}.{key}", *values, symbol, _allowed(schema[key]), meaning])
    if name == "decode":
        rows.append(_quality_row(chosen is not None))
    heads = ["key", "default", *([f"preset {preset}"] if preset else []), "paper", "values", "meaning"]
    said = (section.__doc__ or "").partition("\n")[0]
    return Table(said, heads, rows, n_labels=len(heads))


def _quality_row(with_preset: bool) -> list[str]:
    stands = "; ".join(
        f"{name}: {', '.join(f'{key} {_written(value)}' for key, value in by.items())}"
        for name, by in QUALITIES.items()
    )
    nothing = [MISSING] * (2 if with_preset else 1)
    return ["decode.quality", *nothing, "", ", ".join(QUALITIES), f"one dial for several of these keys; {stands}"]


def _written(value: Any) -> str:
    """Write a value as YAML has it: true, null, [1, 2]."""
    return value if isinstance(value, str) else json.dumps(value)


def _allowed(schema: dict[str, Any]) -> str:
    """Say in words what a JSON schema allows.

    >>> _allowed({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"type": "null"}]})
    'number above 0 to 1, or null'
    """
    if "anyOf" in schema:
        return ", or ".join(_allowed(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(schema.get("enum") or [schema["const"]])
    bounds = "".join(f" {word} {schema[bound]:g}" for bound, word in _BOUNDS.items() if bound in schema)
    return f"{_TYPES.get(schema['type'], schema['type'])}{bounds}"
