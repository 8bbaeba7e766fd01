"""Weights between folders and models; what does not fit is refused by name."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from recoversat.config import Config, ModelConfig
from recoversat.errors import UserError
from recoversat.files.int8 import INT8
from recoversat.files.model_folder import WEIGHTS, is_int8_alone, read_config
from recoversat.model.build import Model, build_model
from recoversat.model.exported import exported_weights

_SEGMENTS, _OUTPUT_BIAS = "segment_embedding.weight", "output_bias"
_STYLE = ("norm", "activation", "positions", "output_bias")  # settings of a model that its weights do not show


def save_weights(weights: dict[str, Tensor], folder: Path, name: str = WEIGHTS) -> None:
    try:
        save_file({key: tensor.detach().contiguous().cpu() for key, tensor in weights.items()}, folder / name)
    except SafetensorError as error:  # a full disk, mostly
        raise UserError(f"{name} could not be written ({error}); make room, then the same command continues") from None
    (folder / name).chmod(0o644)  # safetensors lets nobody else read it


def read_weights(folder: Path, name: str = WEIGHTS) -> dict[str, Tensor]:
    try:
        return load_file(folder / name)
    except FileNotFoundError:
        exported = (folder / INT8).is_file() or (folder / "onnx").is_dir()
        hint = ": this is an exported model; give the one it was exported from" if exported else ""
        raise UserError(f"{folder}: no weights here ({name} is missing){hint}") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{folder / name}: damaged ({error})") from None


def load_model(folder: Path) -> tuple[Model, Config]:
    """Build the model a folder describes and fill in its weights."""
    config, _ = read_config(folder)
    model = build_model(config.model)
    fill(model, read_weights(folder), folder)
    return model, config


def fill(model: nn.Module, weights: dict[str, Tensor], folder: Path) -> None:
    """Copy weights into a model, naming the first thing that does not fit."""
    own = model.state_dict()
    for name in [*own, *(name for name in weights if name not in own)]:
        if name not in weights or name not in own:
            where = "the folder" if name not in weights else "the model that config.json describes"
            raise UserError(f"{folder}: {name} is missing in {where}")
        found, wanted = tuple(weights[name].shape), tuple(own[name].shape)
        if found != wanted:
            raise UserError(f"{folder}: {name} is {found}, config.json asks for {wanted}")
    model.load_state_dict(weights)


def start_from_teacher(model: Model, teacher: Path, parts: tuple[str, ...]) -> None:
    """Copy the teacher's encoder and shared embeddings (or other `parts`, by the start of their names).

    A bias of its logits belongs to the embeddings.

    Of an exported model, the built-in one say, they are the int8 weights, multiplied out.

    A decoder comes with what it knows its segments by: without, a student that goes on from another has lost its K = 1.
    """
    _check_style(model.config, teacher)
    weights, own = exported_weights(teacher) if is_int8_alone(teacher) else read_weights(teacher), model.state_dict()
    wanted = [name for name in own if name.startswith((*parts, _OUTPUT_BIAS))]
    for name in wanted:
        if name not in weights:
            raise UserError(f"cannot start from {teacher}: it has no {name}; use the same number of layers")
        found, need = tuple(weights[name].shape), tuple(own[name].shape)
        if found != need:
            raise UserError(f"cannot start from {teacher}: its {name} is {found}, this model needs {need}")
    model.load_state_dict({name: weights[name] for name in wanted}, strict=False)
    if "decoder." in parts and _SEGMENTS in own and _SEGMENTS in weights:  # as many as both have
        known = weights[_SEGMENTS][: len(own[_SEGMENTS])]
        own[_SEGMENTS][: len(known)] = known


def _check_style(own: ModelConfig, teacher: Path) -> None:
    """Refuse layers that compute something else with the same weights."""
    config, _ = read_config(teacher)
    for name in _STYLE:
        theirs = getattr(config.model, name)
        if getattr(own, name) != theirs:
            raise UserError(
                f"cannot start from {teacher}: its model.{name} is {str(theirs).lower()}, this model's"
                f" {str(getattr(own, name)).lower()}; add --set model.{name}={str(theirs).lower()}"
            )
