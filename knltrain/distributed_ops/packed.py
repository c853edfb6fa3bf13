"""The parameters of one layer in one vector, so that one sum covers them all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import numpy as np

from knltrain.vectors import FloatArray
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.parameter_groups import ParameterGroups

_LINE = 16
"""Floats of a cache line; each parameter begins at one."""


@final
class PackedLayout:
    """The layout of parameters of ``shapes`` in a vector of ``size`` floats; gaps are zero."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._shapes = dict(shapes)
        self.begins: dict[str, int] = {}
        self.size = 0
        for name, shape in self._shapes.items():
            self.begins[name] = self.size
            self.size += -(-math.prod(shape) // _LINE) * _LINE

    def vector(self) -> FloatArray:
        """Make such a vector of zeros."""
        return aligned_zeros((self.size,))

    def views(self, vector: FloatArray) -> dict[str, FloatArray]:
        """Return the parameters in a vector."""
        return {
            name: vector[begin : begin + math.prod(self._shapes[name])].reshape(self._shapes[name])
            for name, begin in self.begins.items()
        }

    def segments(
        self,
        decays: Mapping[str, float],
        statistics: Mapping[str, float],
        rates: Mapping[str, float],
    ) -> ParameterGroups:
        """Return the optimizer's segments: which parameters decay, which are statistics, and the
        factors of the learning rate."""
        names = list(self._shapes)
        return ParameterGroups(
            np.array([*self.begins.values(), self.size], np.int64),
            np.array([rates.get(name, 1.0) for name in names], np.float32),
            np.array([decays.get(name, 0.0) for name in names], np.float32),
            np.array([statistics.get(name, np.nan) for name in names], np.float32),
        )
