"""The memory order in which a plan computes: what the lanes of its vectors are.

Images in the lanes fill them whatever the layers are, but only in whole vectors of images: a batch
of 20 computes 32. Channels in the lanes leave a batch as it is, but fill lanes only where there are
enough of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from knltrain.network.network import Network
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import IMAGE_LANES, padded_images
from vectorized_ops.numba.grouped_winograd import is_square
from vectorized_ops.shapes import ConvolutionShape

_KERNELS: Final = {
    "Activation", "AdaptiveAveragePooling", "Addition", "Affine", "AveragePooling",
    "BatchNormalisation", "Concatenation", "Convolution", "Dense", "Dropout", "Flatten",
    "GlobalAveragePooling", "LocalResponseNormalisation", "MaxPooling", "ReLU",
}  # fmt: skip
"""Layers that have kernels with channels in the lanes."""

_FULL: Final = 1.25
"""Time of a step with channels in the lanes to that with images there, if both fill them.

Measured on two cores of an AMD EPYC (Zen 4): 1.15 to 1.23 for ResNet-50 and GoogLeNet.
"""

_DIRECT: Final = 1.6
"""Time of a convolution that Winograd's algorithm takes with images in the lanes alone."""

_CALL_FLOPS: Final = 1e7
"""What two cores compute while Python calls one direction of a layer with channels in the lanes.

With images there a step is a few calls of a program. On an Intel Xeon (Emerald Rapids) a call took
0.05 ms: with it LeNet's 4 images took 2.7 ms instead of 1.2. More cores were not measured.
"""

_MOST_GROUPS: Final = 4
"""Of more, each has too few channels."""


def layout_of(network: Network, images: int) -> str:
    """Return the layout in which a step of so many images is expected to be faster in float32.

    That is "images_last" where they come to whole vectors, and where Numba has no OpenMP, in whose
    threads the kernels of the other run.
    """
    filled = padded_images(images) / images
    if filled <= _FULL or any(type(layer).__name__ not in _KERNELS for layer in network.layers):
        return "images_last"
    call = _CALL_FLOPS / images
    by_images, by_channels = 0.0, 2 * len(network.layers) * call
    for layer in network.layers:
        if type(layer).__name__ != "Convolution":
            continue
        (source,) = network.inputs_of(layer)
        shape = layer.operation(1, (network.shape_of(source),))
        assert isinstance(shape, ConvolutionShape)
        if shape.groups > _MOST_GROUPS:
            return "images_last"
        back = network.needs_gradient(source)
        by_images += filled * shape.flops * (2 + back)
        by_channels += _FULL * shape.flops * _lanes(shape, back) + back * call
    return "channels_last" if by_channels < by_images and _has_threads() else "images_last"


def _has_threads() -> bool:
    try:
        import_module("vectorized_ops.channels_last.team")
    except OperationError:
        return False
    return True


def _lanes(shape: ConvolutionShape, back: bool) -> float:
    """Return the lanes of all directions to those filled with channels; less is better."""
    channels, filters = (n // shape.groups for n in (shape.channels, shape.filters))
    lanes = 2 * padded_images(filters) / filters + back * padded_images(channels) / channels
    whole = channels % IMAGE_LANES == filters % IMAGE_LANES == 0
    return lanes * (_DIRECT if is_square(shape) and not whole else 1.0)
