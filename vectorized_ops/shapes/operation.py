"""The cost of an operation by its definition, whatever algorithm computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations, and the bytes of memory that must be read and written once each, in float32."""

    flops: int
    compulsory_bytes: int

    def __add__(self, other: Cost) -> Cost:
        """What both cost, one after the other."""
        return Cost(self.flops + other.flops, self.compulsory_bytes + other.compulsory_bytes)


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


def passes(values: int, flops_per_value: int, passes: int) -> Cost:
    """So many operations on each value, and so many reads and writes of it."""
    return Cost(flops_per_value * values, FLOAT_BYTES * passes * values)


def by(extents: tuple[int, ...]) -> str:
    """Extents as text: "3x3"."""
    return "x".join(map(str, extents))
