"""Limits for clipping a gradient before an optimizer uses it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clipping:
    """Bounds of a gradient; infinity stands for none.

    First every value is brought into ±`value`. Then, where the 2-norm of all of them together is
    larger than `norm`, all are multiplied by norm / 2-norm (Pascanu, Mikolov, Bengio, *On the
    difficulty of training recurrent neural networks*, ICML 2013, algorithm 1).
    """

    norm: float = math.inf
    value: float = math.inf
