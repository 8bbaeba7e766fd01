"""From a model's settings to the model."""

from recoversat.config import ModelConfig
from recoversat.model.nat import NatTransformer
from recoversat.model.transformer import Transformer

Model = Transformer | NatTransformer


def build_model(config: ModelConfig) -> Model:
    """Make a freshly initialised model of the kind the settings ask for."""
    return Transformer(config) if config.stepwise else NatTransformer(config)
