"""What a model folder is: config.json, weights, the tokenizer, a card; and where one lies. Readable without torch."""

import re
from pathlib import Path
from string import Template
from typing import Any

from recoversat import __version__
from recoversat.config import Config, parse_config
from recoversat.errors import UserError
from recoversat.files.int8 import INT8
from recoversat.files.storage import fingerprint, read_json, write_json
from recoversat.text.directions import find_direction
from recoversat.text.tokenizer import Tokenizer

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ONNX = "onnx"  # the folder of graphs, one of each precision in it
ASSETS = Path(__file__).parents[1] / "assets"  # the models that come with the package
ORIGIN, LICENCE = "derived from", "original licence"  # facts of an imported model, which its students inherit
_CARD = "README.md"
_FORMAT, _NUMBER = "recoversat-", 1  # the number grows when older versions could not read what is written


def write_description(folder: Path, config: Config, tokenizer: Tokenizer, facts: dict[str, Any]) -> None:
    """Write all of a model but its weights; `facts` (step, BLEU, data) are kept with it."""
    tokenizer.save(folder)
    write_json(
        folder / CONFIG,
        {"format": f"{_FORMAT}{_NUMBER}", "version": __version__, "facts": facts, **config.model_dump()},
    )
    card = Template(Path(__file__).with_name("card.md").read_text(encoding="utf-8")).substitute(
        languages=config.data.languages, kind=config.model.kind, version=__version__, preset=config.preset or "none",
        segments=config.train.segments, facts="".join(f"- {name}: {value}\n" for name, value in facts.items()),
    )  # fmt: skip
    (folder / _CARD).write_text(card, encoding="utf-8")


def read_config(folder: Path) -> tuple[Config, dict[str, Any]]:
    """Return a model folder's settings and the facts kept with it."""
    values = read_json(folder / CONFIG, "model folder")
    name, _, number = str(values.pop("format", "") if isinstance(values, dict) else "").partition("-")
    if f"{name}-" != _FORMAT or not number.isdecimal():
        raise UserError(f"{folder}: not a model of recoversat (config.json does not say '{_FORMAT}{_NUMBER}')")
    writer = str(values.pop("version", ""))
    newer = f"{folder}: written by a newer recoversat ({writer}, this is {__version__}); pip install -U recoversat"
    if int(number) > _NUMBER:
        raise UserError(newer)
    facts = values.pop("facts", {})
    try:
        return parse_config(values), facts
    except UserError as error:
        raise (UserError(f"{newer}\n{error}") if _is_newer(writer) else error) from None


def origin_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what a model that learns from this one says of its origin; nothing, unless it was imported."""
    return {key: facts[key] for key in (ORIGIN, LICENCE) if key in facts}


def _is_newer(version: str) -> bool:
    """Say whether a version came after this one.

    >>> _is_newer("99.0"), _is_newer(__version__), _is_newer("")
    (True, False, False)
    """
    theirs, ours = ([int(part) for part in re.findall(r"\d+", text)] for text in (version, __version__))
    return theirs > ours


def resolve_model(path: Path) -> Path:
    """Find the model meant by a path: a model folder, or a training run (its best, else its newest)."""
    if not path.exists():
        raise UserError(f"{path}: no such model folder")
    if (path / CONFIG).is_file():
        return path
    for name in ("model", "best"):  # what `fit` and `train` leave behind
        if (path / name / CONFIG).is_file():
            return path / name
    if checkpoints := checkpoint_folders(path):
        return checkpoints[-1]
    raise UserError(f"{path}: neither a model folder (config.json) nor a training run (best/, checkpoints/)")


def builtin_models() -> list[Path]:
    return sorted(path.parent for path in ASSETS.glob(f"*/{CONFIG}"))


def model_folder(model: Path | None, source: str | None, target: str | None) -> Path:
    """Find the model that somebody names, or the built-in one that translates between two languages."""
    return builtin_model(source, target) if model is None else resolve_model(model)


def builtin_model(source: str | None, target: str | None) -> Path:
    """Find the built-in model that translates between two languages; None stands for any."""
    served = [(pair, folder) for folder in builtin_models() for pair in read_config(folder)[0].data.directions]
    if found := find_direction([pair for pair, _ in served], source, target):
        return next(folder for pair, folder in served if pair == found)
    known = [f"{one} into {other}" for (one, other), _ in served]
    asked = f"from {source or 'any language'} into {target or 'any'}"
    there = f"those there are translate {', '.join(known)}" if known else "this installation has none"
    raise UserError(f"no built-in model translates {asked}: {there}; name a model of your own")


def is_int8_alone(folder: Path) -> bool:
    """Say whether a model was exported to int8 and has no weights of torch, as the built-in one."""
    return not (folder / WEIGHTS).is_file() and (folder / INT8).is_file()


def weights_fingerprint(folder: Path) -> str:
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder}: no torch weights here ({WEIGHTS}); name the model this one was exported from")
    return fingerprint(folder / WEIGHTS)


def model_fingerprint(folder: Path) -> str:
    """Identify all that makes a model translate as it does: settings, vocabulary and weights, torch's and exported."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != _CARD)
    return fingerprint(*sorted(path for path in files if not path.name.startswith(".")))


def checkpoint_folder(run: Path, update: int) -> Path:
    return run / "checkpoints" / f"step-{update:08d}"


def checkpoint_folders(run: Path) -> list[Path]:
    """Return the checkpoints of a training run, oldest first."""
    return sorted((run / "checkpoints").glob("step-*"))
