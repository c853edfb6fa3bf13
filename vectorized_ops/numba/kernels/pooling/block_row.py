"""Reads a row of a table of `kernels.pooling.blocks`, as LLVM values."""

from __future__ import annotations

from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.pooling.blocks import SIDE, seen_by_block


class BlockRow:
    """Emits the reads of the row at a pointer, for windows of `kernel` pixels `stride` apart."""

    def __init__(self, lanes: Lanes, pointer: Value, kernel: int, stride: int = 1) -> None:
        self._lanes, self._pointer = lanes, pointer
        self._size = seen_by_block(kernel, stride)

    def _entries(self, first: int, number: int) -> list[Value]:
        at = (self._lanes.at(self._pointer, first + i) for i in range(number))
        return [self._lanes.load_integer(pointer) for pointer in at]

    def exists(self) -> list[Value]:
        """Return a flag for each member."""
        return [self.flag(number) for number in self._entries(1, SIDE)]

    def members(self) -> list[Value]:
        """Return the numbers of the members; for one that does not exist that of the first."""
        first, *others = self._entries(0, 1 + SIDE)
        return [
            self._lanes.sum(first, self._lanes.product(exists, number))
            for number, exists in enumerate(others)
        ]

    def seen(self) -> list[Value]:
        """Return the numbers of what is seen."""
        return self._entries(1 + SIDE, self._size)

    def about(self) -> list[Value]:
        """Return what is known of each thing seen."""
        return self._entries(1 + SIDE + self._size, self._size)

    def flag(self, number: Value) -> Value:
        """Return whether a number is not 0."""
        return self._lanes.builder.icmp_signed("!=", number, self._lanes.integer(0))

    def addresses(self, begin: Value, distance: Value) -> list[Value]:
        """Return where what is seen lies, neighbours being `distance` elements apart."""
        lanes = self._lanes
        return [lanes.at(begin, lanes.product(number, distance)) for number in self.seen()]
