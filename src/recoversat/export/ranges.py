"""How large the inputs of a model's products get: what int8 takes its scales from."""

from collections.abc import Mapping
from typing import NamedTuple


class Range(NamedTuple):
    """The least and the largest value a product has met as input; 0 lies between them."""

    low: float
    high: float


Ranges = Mapping[str, Range]  # by the name of the product
