"""From a model's settings to the model."""

from recoversat.config import ModelConfig
from recoversat.model.transformer import Transformer

Model = Transformer


def build_model(config: ModelConfig) -> Model:
    """Make a freshly initialised model."""
    return Transformer(config)
