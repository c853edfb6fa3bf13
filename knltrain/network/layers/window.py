"""The window that convolutions and poolings move over an image."""

from __future__ import annotations

from dataclasses import dataclass

from knltrain.errors import NetworkError

__all__ = ["Extent", "Pair", "Window"]

Pair = tuple[int, int]
"""A number for lines and one for pixels: (height, width) of a kernel, (y, x) of a stride."""

Extent = int | Pair
"""One number for both directions, or a pair."""


def pair(extent: Extent) -> Pair:
    """Both directions, written out."""
    return extent if isinstance(extent, tuple) else (extent, extent)


def shortest(extent: Extent) -> Extent:
    """The canonical form of an extent: a single number where both directions agree."""
    lines, pixels = pair(extent)
    return lines if lines == pixels else (lines, pixels)


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, stride, padding and dilation of layer `name`, each for lines and for pixels.

    Raises NetworkError when one of them is too small.
    """

    name: str
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        for key, least in (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            given: Pair = getattr(self, key)
            if min(given) < least:
                raise NetworkError(
                    f"layer '{self.name}': {key} = {shortest(given)}, expected at least {least}"
                )

    def positions(self, height: int, width: int, ceil: bool = False) -> Pair:
        """Lines and pixels of the output: (size + 2 padding - reach) // stride + 1 for each.

        `reach` is dilation (kernel - 1) + 1. With `ceil` the division rounds up, as Caffe's
        poolings do, but a last window that would start behind the image and the padding before
        it is left out. Raises NetworkError when the window does not fit.
        """
        lines, pixels = (self._along(axis, size, ceil) for axis, size in enumerate((height, width)))
        return lines, pixels

    def _along(self, axis: int, size: int, ceil: bool) -> int:
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        padding, stride = self.padding[axis], self.stride[axis]
        free = size + 2 * padding - reach
        if free < 0:
            raise NetworkError(
                f"layer '{self.name}': a window of {reach} does not fit into {size} pixels with "
                f"padding {padding}: use a smaller kernel or a larger image"
            )
        if not ceil:
            return free // stride + 1
        last = -(-free // stride)
        return last if last * stride >= size + padding else last + 1
