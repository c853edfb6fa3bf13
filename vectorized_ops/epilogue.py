"""What an operation does to each of its results before it is written: the epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

RECTIFIER: Final = "rectifier"


class Epilogue(NamedTuple):
    """A rectifier with `slope` and `ceiling`, or one of the smooth ACTIVATION_FUNCTIONS.

    `vectorized_ops.reference` defines both as `Rectifier` and `Activation`. A rectifier with slope
    1 changes nothing.
    """

    function: str = RECTIFIER
    slope: float = 1.0
    ceiling: float = math.inf

    def operation(
        self, rectifier: Callable[[float, float], Any], activation: Callable[[str], Any]
    ) -> Any:
        """Return the operation that it does, by an implementation's classes of both kinds."""
        if self.function == RECTIFIER:
            return rectifier(self.slope, self.ceiling)
        return activation(self.function)


IDENTITY: Final = Epilogue()
RELU: Final = Epilogue(slope=0.0)
