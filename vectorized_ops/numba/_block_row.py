"""The reads of a row of a table of `vectorized_ops.numba._window_blocks`, as LLVM values."""

from __future__ import annotations

from vectorized_ops.numba._lanes import Lanes, Value
from vectorized_ops.numba._window_blocks import SIDE, seen_by_block


class BlockRow:
    """Emits the reads of the row that begins at a pointer, for windows of `kernel` pixels."""

    def __init__(self, lanes: Lanes, pointer: Value, kernel: int) -> None:
        self._lanes, self._pointer, self._size = lanes, pointer, seen_by_block(kernel)

    def _entries(self, first: int, number: int) -> list[Value]:
        at = (self._lanes.at(self._pointer, first + i) for i in range(number))
        return [self._lanes.load_integer(pointer) for pointer in at]

    def exists(self) -> list[Value]:
        """Return a flag for each member."""
        return [self.flag(number) for number in self._entries(1, SIDE)]

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
