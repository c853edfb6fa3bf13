"""The shapes of operations on windows, the same for every implementation; pairs are (y, x)."""

from __future__ import annotations

from dataclasses import dataclass

from vectorized_ops.errors import OperationError

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """A convolution of `images` maps of height x width x channels with `filters` filters.

    Tap (r, s) of the kernel lies `dilation` pixels from the next; windows are `stride` pixels
    apart on the map bordered with `padding` zeros, and may lie in the padding altogether. Of G
    groups, each convolves channels / G with filters / G. Raises OperationError for shapes without
    a window, for counts below 1 and for groups that divide channels or filters with a remainder.
    """

    images: int
    height: int
    width: int
    channels: int
    filters: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        what = "a convolution"
        for name in ("images", "height", "width", "channels", "filters", "groups"):
            _check_least(what, name, getattr(self, name), 1)
        for name in ("kernel", "stride", "dilation"):
            _check_least(what, name, getattr(self, name), 1)
        _check_least(what, "padding", self.padding, 0)
        for name in ("channels", "filters"):
            if getattr(self, name) % self.groups:
                raise OperationError(
                    f"a convolution with {name} = {getattr(self, name)} in {self.groups} groups "
                    f"was asked for: expected a multiple of {self.groups}; change {name} or groups"
                )
        if min(self.lines, self.pixels) < 1:
            raise OperationError(
                f"a kernel of {_by(self.kernel)} taps, {_by(self.dilation)} pixels apart, was "
                f"asked for on {_by((self.height, self.width))} pixels with padding "
                f"{_by(self.padding)}: expected one that fits; use a smaller kernel or dilation, "
                "more padding or larger images"
            )

    @property
    def lines(self) -> int:
        """Height H' of the output."""
        return _positions(self.height, self._extent(0), self.stride[0], self.padding[0])

    @property
    def pixels(self) -> int:
        """Width W' of the output."""
        return _positions(self.width, self._extent(1), self.stride[1], self.padding[1])

    @property
    def inputs(self) -> tuple[int, int, int, int]:
        """Shape (N, H, W, C) of the images."""
        return self.images, self.height, self.width, self.channels

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        """Shape (N, H', W', K) of the output."""
        return self.images, self.lines, self.pixels, self.filters

    @property
    def weights(self) -> tuple[int, int, int, int]:
        """Shape (K, C / groups, R, S) of the weights."""
        return self.filters, self.channels // self.groups, *self.kernel

    @property
    def flops(self) -> int:
        """2 N K C/groups R S H' W', in each of the three directions; padding counts as well."""
        filters, channels, taps_y, taps_x = self.weights
        products = filters * channels * taps_y * taps_x
        return 2 * self.images * self.lines * self.pixels * products

    def _extent(self, axis: int) -> int:
        """Pixels from the first tap of the kernel to its last, both included."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1


@dataclass(frozen=True, slots=True)
class PoolingShape:
    """Windows of `kernel` pixels, `stride` pixels apart, on a bordered map of height x width.

    With `ceil`, a last window that begins inside the image or the padding before it is taken even
    if it leaves the bordered map at its end, as Caffe and PyTorch's `ceil_mode` do; otherwise all
    windows lie within the bordered map. Each window holds a pixel of the image. Raises
    OperationError for shapes without a window, counts below 1 and padding of the kernel or more.
    """

    height: int
    width: int
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    ceil: bool = False

    def __post_init__(self) -> None:
        for name in ("height", "width", "kernel", "stride"):
            _check_least("a pooling", name, getattr(self, name), 1)
        _check_least("a pooling", "padding", self.padding, 0)
        if self.padding[0] >= self.kernel[0] or self.padding[1] >= self.kernel[1]:
            raise OperationError(
                f"pooling over {_by(self.kernel)} pixels with padding {_by(self.padding)} was "
                "asked for: expected padding below the kernel, so that no window lies outside the "
                "image; use less padding"
            )
        if min(self.lines, self.pixels) < 1:
            raise OperationError(
                f"pooling over {_by(self.kernel)} pixels was asked for on "
                f"{_by((self.height, self.width))} pixels with padding {_by(self.padding)}: "
                "expected a window that fits; use a smaller kernel, more padding or larger images"
            )

    @property
    def lines(self) -> int:
        """Height H' of the output."""
        return self._positions(self.height, 0)

    @property
    def pixels(self) -> int:
        """Width W' of the output."""
        return self._positions(self.width, 1)

    def _positions(self, extent: int, axis: int) -> int:
        kernel, stride, padding = self.kernel[axis], self.stride[axis], self.padding[axis]
        positions = _positions(extent + (stride - 1) * self.ceil, kernel, stride, padding)
        begins_outside = (positions - 1) * stride >= extent + padding
        return positions - (self.ceil and begins_outside)


def _positions(extent: int, kernel: int, stride: int, padding: int) -> int:
    return (extent + 2 * padding - kernel) // stride + 1


def _check_least(what: str, name: str, value: int | Pair, least: int) -> None:
    if min(value if isinstance(value, tuple) else (value,)) < least:
        raise OperationError(
            f"{what} with {name} = {value} was asked for: expected at least {least}"
        )


def _by(pair: Pair) -> str:
    return f"{pair[0]}x{pair[1]}"
