"""Positional encodings for engines that compute them themselves.

D model.
"""

import numpy as np

from recoversat.decoding.stepping import Floats


class Positions:
    """The positional encoding of as many positions as were asked for."""

    def __init__(self, d_model: int) -> None:
        self.d_model = d_model
        self._table = sinusoids(256, d_model)

    def first(self, length: int) -> Floats:
        """Return positions 0 to length - 1, (length, D)."""
        table = self._table  # another thread may put a shorter one in its place
        if length > len(table):
            table = self._table = sinusoids(2 * length, self.d_model)
        return table[:length]

    def at(self, position: int) -> Floats:
        """Return one position, (D,)."""
        table = self._table
        return table[position] if position < len(table) else self.first(position + 1)[position]


def sinusoids(length: int, d_model: int) -> Floats:
    """Return the paper's positional encoding (Appendix A): sines at even, cosines at odd places.

    >>> sinusoids(2, 2).round(2).tolist()
    [[0.0, 1.0], [0.8399999737739563, 0.5400000214576721]]
    """
    angles = np.arange(length)[:, None] * 10_000.0 ** (-np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model).astype(np.float32)
