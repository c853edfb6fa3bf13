"""The seam of all layers: a name, what it costs, and where its time went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from knltrain.distributed_ops.costs import NOTHING, Cost
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import DIRECTIONS, Times
from knltrain.errors import NetworkError
from vectorized_ops import shapes
from vectorized_ops.layout import AnyArray


class Layer(ABC):
    """A layer with arrays of its own for what it returns, which the next call overwrites.

    Arrays between layers are float32 (N', H, W, C) or (N', I) in the memory order of the
    implementation, as `Images` and layers return them; N' is N, or for "numba" N rounded up to
    whole vectors, whose further images mean nothing. `times` are those of each direction.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, options: Options | None) -> None:
        self.name, self.options = name, options or Options()
        self.times = {direction: Times() for direction in DIRECTIONS}
        self._operations = self.options.operations

    @property
    @abstractmethod
    def shape(self) -> shapes.OperationShape:
        """What it computes, for N images."""

    def cost(self, direction: str) -> Cost:
        """What a call of a direction, one of `times`, costs; it needs not have that direction."""
        return Cost.of(self._computing(direction))

    def clear_times(self) -> None:
        """Forget what was recorded, as after the first steps, which compile."""
        for times in self.times.values():
            times.clear()

    def _computing(self, direction: str) -> shapes.Cost:
        """What a call of a direction costs of computing and memory alone."""
        return self.shape.costs.get(direction, NOTHING)

    def _array(self, *shape: int) -> AnyArray:
        """Make an array as layers pass them on; the first of `shape` is N."""
        array: AnyArray = self._operations.activations(shape)
        return array

    def _check(self, what: str, given: AnyArray, expected: AnyArray) -> None:
        """Raise NetworkError unless an array is as `expected`."""
        if given.shape != expected.shape or given.dtype != np.float32:
            raise NetworkError(
                f"layer '{self.name}' was given {what} of shape {given.shape} and type "
                f"{given.dtype}: expected {expected.shape}, float32, as the layer beside it "
                "returns them; begin with Images.load"
            )
