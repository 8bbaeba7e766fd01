"""The models that come with the package."""

from pathlib import Path

from recoversat.errors import UserError
from recoversat.files.model_folder import CONFIG, read_config, resolve_model
from recoversat.text.directions import find_direction

ASSETS = Path(__file__).parents[1] / "assets"


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
