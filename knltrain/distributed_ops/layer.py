"""The base class of all layers: name, costs and times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final

import numpy as np

from knltrain.distributed_ops.costs import Cost
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import DIRECTIONS, Times
from knltrain.errors import NetworkError
from vectorized_ops import shapes
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes.execution import ExecutedCost, executed

_PACKED: Final = ("numba", "channels_last")
"""Implementations of our own, whose algorithms and layout are counted; others by definition."""


class Layer(ABC):
    """A layer. It returns arrays of its own, which the next call overwrites.

    Arrays between layers are float32 (N', H, W, C) or (N', I) in the memory order of the
    implementation, as `Images` and layers return them. N' is N, or for "numba" N rounded up to
    whole vectors; the values of the additional images are meaningless. `times` are by direction.
    """

    kind: ClassVar[str]

    inputs: tuple[tuple[int, ...], ...]
    """Shape (N, H, W, C) or (N, I) of each array that `forward` takes, for N images."""
    outputs: tuple[int, ...]
    """Shape of what `forward` returns."""

    def __init__(self, name: str, options: Options | None) -> None:
        self.name, self.options = name, options or Options()
        self.times = {direction: Times() for direction in DIRECTIONS}
        self._operations = self.options.operations

    @property
    @abstractmethod
    def shape(self) -> shapes.OperationShape:
        """The shape of the operation, for N images."""

    def cost(self, direction: str) -> Cost:
        """Return the cost of a call of a direction, a key of `times`; the layer may lack it."""
        parts = self._computed_by(direction)
        costs = [self.shape.costs[each] for each in parts]
        flops, moved = sum(c.flops for c in costs), sum(c.compulsory_bytes for c in costs)
        if self.options.implementation not in _PACKED:
            return Cost(flops, moved, flops, moved)
        done = [self._executed(each) for each in parts]
        return Cost(
            flops,
            moved,
            sum(each.executed_flops for each in done),
            sum(each.layout_bytes for each in done),
        )

    def clear_times(self) -> None:
        """Reset the times, for example after the first steps, which compile."""
        for times in self.times.values():
            times.clear()

    def _computed_by(self, direction: str) -> tuple[str, ...]:
        """Return the keys of the shape's `costs` that a call of a direction computes."""
        return (direction,) if direction in self.shape.costs else ()

    def _executed(self, part: str) -> ExecutedCost:
        """Return what the implementation's algorithm and layout make of a part."""
        pads = self.options.implementation == "numba" or isinstance(self.shape, shapes.DenseShape)
        return executed(self.shape, part, self._algorithm(part), pads=pads)

    def _algorithm(self, part: str) -> str | None:  # noqa: ARG002
        """Return the name of the algorithm that was chosen for a part, where there are several."""
        return None

    def _array(self, *shape: int) -> AnyArray:
        """Make an array in the memory order of the implementation; the first of `shape` is N."""
        array: AnyArray = self._operations.activations(shape)
        return array

    def _lacking(self, operation: str) -> NetworkError:
        """The error where the implementation has no such operation."""
        return NetworkError(
            f"layer '{self.name}': '{self.options.implementation}' has no {operation}; expected "
            "Options with the implementation 'numba' or 'reference'"
        )

    def _check(self, what: str, given: AnyArray, expected: AnyArray) -> None:
        """Raise NetworkError unless an array is as `expected`."""
        if given.shape != expected.shape or given.dtype != np.float32:
            raise NetworkError(
                f"layer '{self.name}' was given {what} of shape {given.shape} and type "
                f"{given.dtype}: expected {expected.shape}, float32, as the layer beside it "
                "returns them; begin with Images.load"
            )
