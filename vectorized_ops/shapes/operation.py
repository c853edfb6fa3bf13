"""What an operation costs by its definition, and how it is called to be timed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import Operations

__all__ = ["FLOAT_BYTES", "Calls", "CopyShape", "Cost", "OperationShape", "Pair", "TimedShape"]

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations, and the bytes of memory that must be read and written once each, in float32.

    `fixed_bytes` of these are not activations: parameters, which are float32 in any precision.
    """

    flops: int
    compulsory_bytes: int
    fixed_bytes: int = field(default=0, compare=False)

    def __add__(self, other: Cost) -> Cost:
        """What both cost, one after the other."""
        return Cost(
            self.flops + other.flops,
            self.compulsory_bytes + other.compulsory_bytes,
            self.fixed_bytes + other.fixed_bytes,
        )

    def kept_in(self, value_bytes: int) -> Cost:
        """The same with activations of so many bytes each."""
        kept = (self.compulsory_bytes - self.fixed_bytes) * value_bytes // FLOAT_BYTES
        return replace(self, compulsory_bytes=self.fixed_bytes + kept)


@dataclass(frozen=True, slots=True)
class Calls:
    """An operation on arrays of its own: by direction what computes it once.

    `choices` tells, by direction, which algorithm a convolution chose and from what.
    """

    runs: Mapping[str, Callable[[], object]]
    choices: Mapping[str, Any] = field(default_factory=dict)


class OperationShape(ABC):
    """An operation on arrays of given shapes; equal ones cost the same.

    `str` tells what makes it another than its kind's others, but for the number of images.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """What the field calls such operations: "convolution"."""

    is_product: ClassVar[bool] = False
    """Whether it is bound by its products; the others are bound by memory."""

    @property
    @abstractmethod
    def costs(self) -> Mapping[str, Cost]:
        """By direction: "forward", "backward_data", "backward_weights", "statistics"."""


class TimedShape(OperationShape):
    """An operation that can be timed by itself."""

    __slots__ = ()

    @abstractmethod
    def calls(self, operations: Operations) -> Calls | None:
        """Prepare all directions in one implementation; None if it has no such operation."""


def passes(values: int, flops_per_value: int, passes: int) -> Cost:
    """So many operations on each value, and so many reads and writes of it."""
    return Cost(flops_per_value * values, FLOAT_BYTES * passes * values)


def by(extents: tuple[int, ...]) -> str:
    """Extents as text: "3x3"."""
    return "x".join(map(str, extents))


Pair = tuple[int, int]


def positions(extent: int, kernel: int, stride: int, padding: int) -> int:
    """Windows along an axis of `extent` pixels."""
    return (extent + 2 * padding - kernel) // stride + 1


def check_least(what: str, name: str, value: int | Pair, least: int) -> None:
    """Refuse numbers below `least`: OperationError."""
    if min(value if isinstance(value, tuple) else (value,)) < least:
        raise OperationError(
            f"{what} with {name} = {value} was asked for: expected at least {least}"
        )


@dataclass(frozen=True, slots=True)
class CopyShape(OperationShape):
    """An array of this shape, images first, brought into another order."""

    kind: ClassVar[str] = "copy"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A read and a write."""
        cost = passes(math.prod(self.inputs), 0, 2)
        return dict.fromkeys(("forward", "backward_data"), cost)

    def __str__(self) -> str:
        return by(self.inputs[1:])
