"""How operations that treat all values alike see their arrays: as pieces that lie side by side."""

from __future__ import annotations

from dataclasses import dataclass

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, pixels


@dataclass(frozen=True, slots=True)
class Blocks:
    """Flat arrays, each with the distance between its neighbouring blocks, and what they share.

    A block of `size` elements is what lies side by side in all of the arrays: a pixel if one of
    them is a slice of channels, else everything.
    """

    arrays: tuple[tuple[AnyArray, int], ...]
    number: int
    size: int


def blocks(*arrays: AnyArray) -> Blocks:
    """Return the blocks of arrays (N, H, W, C) or (N, I); OperationError if their shapes differ."""
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise OperationError(
            f"arrays of shapes {', '.join(map(str, sorted(shapes)))} were given to an operation on "
            "each of their values: expected one shape; make all of them for one number of images"
        )
    flat = tuple(pixels(array) for array in arrays)
    size = arrays[0].shape[0] * arrays[0].shape[-1]
    if all(distance == size for _, distance in flat):
        return Blocks(flat, 1, arrays[0].size)
    return Blocks(flat, arrays[0].size // size, size)
