"""Runs operations whose arrays begin, or end, at memory that nobody may touch.

A slip ends in SIGSEGV.

    python memory_between_guards.py

Prints the name of each operation before it runs.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vectorized_ops.channels_last.convolution import Convolution as InOrder
from vectorized_ops.channels_last.winograd_convolution import WinogradConvolution as WinogradInOrder
from vectorized_ops.layout import STORED
from vectorized_ops.numba.amx_convolution import AmxConvolution
from vectorized_ops.numba.arrays import activations_in, activations_size
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.dense import Dense
from vectorized_ops.numba.pictures import PicturePass
from vectorized_ops.numba.pooled_convolution import pooled_convolution
from vectorized_ops.numba.strassen_convolution import StrassenConvolution
from vectorized_ops.numba.winograd_convolution import WinogradConvolution
from vectorized_ops.pictures import PicturePlan
from vectorized_ops.shapes import ConvolutionShape

MAPPINGS: list[mmap.mmap] = []
"""Kept to the end, as are the arrays on them."""

PROT_NONE = 0

SHAPES = {
    "few channels": ConvolutionShape(16, 5, 6, 3, 7, (3, 3), padding=(1, 1)),
    "strides": ConvolutionShape(16, 7, 5, 19, 35, (3, 2), stride=(2, 2)),
    "single taps": ConvolutionShape(16, 3, 3, 17, 33, (1, 1)),
    "many filters of few channels": ConvolutionShape(16, 3, 3, 5, 48, (1, 1)),
    "3x3": ConvolutionShape(16, 6, 5, 18, 35, (3, 3), padding=(1, 1)),
    "halves": ConvolutionShape(32, 3, 3, 70, 92, (1, 1)),
}
"""Convolutions whose channels and filters are no whole vectors."""


IN_BFLOAT16: list[tuple[str, Callable[[ConvolutionShape], Any], Any]] = [
    ("direct", partial(Convolution, kept=STORED), SHAPES),
    ("emulated AMX", partial(AmxConvolution, native=False), SHAPES),
    ("Winograd", partial(WinogradConvolution, outputs=2), ("3x3",)),
    ("large Winograd", partial(WinogradConvolution, outputs=4), ("3x3",)),
]
"""Algorithms, and the names of shapes that they take."""


IN_C_ORDER = {
    "one pixel": ConvolutionShape(1, 1, 1, 3, 5, (1, 1)),
    "single taps of one channel": ConvolutionShape(5, 3, 9, 1, 5, (1, 1)),
    "single taps of few channels": ConvolutionShape(1, 10, 13, 5, 17, (1, 1)),
    "single taps": ConvolutionShape(3, 7, 7, 40, 24, (1, 1)),
    "lines of few channels": ConvolutionShape(1, 5, 6, 3, 7, (3, 3), padding=(1, 1)),
    "strides": ConvolutionShape(3, 7, 5, 17, 33, (3, 2), (2, 3), (1, 0)),
    "dilation": ConvolutionShape(2, 9, 7, 16, 16, (3, 3), (1, 1), (2, 2), (2, 2)),
    "groups": ConvolutionShape(3, 5, 4, 9, 51, (2, 3), (1, 1), (0, 1), groups=3),
    "many channels": ConvolutionShape(1, 3, 3, 300, 5, (1, 1)),
    "many filters": ConvolutionShape(1, 3, 3, 5, 300, (1, 1)),
}
"""Convolutions of arrays whose channels run fastest."""

IN_C_ORDER_3X3 = {
    "whole tiles": ConvolutionShape(1, 8, 4, 16, 32, (3, 3), padding=(1, 1)),
    "ends": ConvolutionShape(3, 5, 7, 48, 16, (3, 3), padding=(0, 2)),
    "groups": ConvolutionShape(1, 5, 7, 32, 64, (3, 3), padding=(1, 1), groups=2),
}


class Guarded:
    """Makes arrays that end where forbidden memory begins or, unless `at_end`, begin behind it."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end

    def array(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        mapping = mmap.mmap(-1, room + 2 * mmap.PAGESIZE)
        MAPPINGS.append(mapping)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        for page in (begin, begin + mmap.PAGESIZE + room):
            if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, PROT_NONE):
                raise OSError("mprotect failed")
        first = mmap.PAGESIZE + (room - size) * self.at_end
        return np.frombuffer(mapping, dtype, math.prod(shape), first).reshape(shape)

    def activations(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        return activations_in(self.array(activations_size(shape), dtype=dtype), shape)


class GuardedInOrder(Guarded):
    """The same of activations in C order, between whose pixels there are so many other channels."""

    def __init__(self, at_end: bool, others: int) -> None:
        super().__init__(at_end)
        self._others = others

    def activations(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        channels, distance = shape[-1], shape[-1] + self._others
        flat = self.array((math.prod(shape[:-1]) - 1) * distance + channels, dtype=dtype)
        strides = [math.prod(shape[axis + 1 : -1]) * distance for axis in range(len(shape) - 1)]
        bytes_apart = [stride * flat.itemsize for stride in (*strides, 1)]
        return np.lib.stride_tricks.as_strided(flat, shape, bytes_apart)


def convolve(operation: Any, new: Guarded, kept: Any = np.float32) -> None:
    """All directions that the operation has, of activations of the type `kept`."""
    shape = operation.shape
    images, gradient, mask = (
        new.activations(*size, dtype=kept) for size in (shape.inputs, shape.outputs, shape.inputs)
    )
    weights, bias = new.array(*shape.weights), new.array(shape.filters)
    operation.forward(images, weights, bias, gradient)
    operation.backward_data(gradient, weights, images, mask=mask)
    operation.backward_data(gradient, weights, images, add=True)
    if hasattr(operation, "backward_weights"):
        operation.backward_weights(images, gradient, weights, bias)
        operation.backward_weights(images, gradient, weights, None)


def convolve_in_order(
    make: Callable[[ConvolutionShape], Any], shape: ConvolutionShape, new: Guarded
) -> None:
    """The same in C order, of whole arrays and of slices; scratch memory is guarded, too."""
    for others in (0, 3):
        operation = make(shape)
        operation.use_scratch(new.array(operation.scratch_size))
        convolve(operation, GuardedInOrder(new.at_end, others))


def convolve_in_bfloat16(
    make: Callable[[ConvolutionShape], Any], shape: ConvolutionShape, new: Guarded
) -> None:
    """The same of activations in bfloat16."""
    convolve(make(shape), new, STORED)


def convolve_and_pool(algorithm: str, new: Guarded) -> None:
    """Both passes of a convolution with pooling."""
    images = new.activations(16, 8, 12, 5)
    weights, bias = new.array(7, 5, 5, 5), new.array(7)
    out, which = new.activations(16, 2, 4, 7), new.activations(16, 2, 4, 7, dtype=np.uint8)
    operation = pooled_convolution(images.shape, 7, 5, algorithm)
    operation.forward(images, weights, bias, out, which)
    operation.backward(images, out, which, weights, weights, bias, images)


def multiply(kept: Any, new: Guarded) -> None:
    """All directions of a dense layer, of vectors of the type `kept`."""
    inputs, outputs, mask = (new.activations(16, size, dtype=kept) for size in (37, 19, 37))
    weights, bias, operation = new.array(19, 37), new.array(19), Dense(16, 37, 19, kept)
    operation.forward(inputs, weights, bias, outputs, relu=True)
    operation.backward_data(outputs, weights, inputs, mask=mask)
    operation.backward_weights(inputs, outputs, weights, bias)


def pass_over_pictures(size: tuple[int, int], channels: int, new: Guarded) -> None:
    """Pictures of all layouts, copied whole, in part and resized, with and without colours."""
    height, width = size
    count, shape = 4, (*size, channels)
    out, (mean, scale) = new.array(count, *shape), new.array(2, channels)
    colours = new.array(count, channels, channels + 1)
    of_mean = new.array(count, channels, channels)
    larger = new.array(height + 1, width + 2, channels)
    passes = [PicturePass(shape, mean, scale), PicturePass(shape, mean, scale, larger)]
    offsets = np.full((count, 2), -1)
    for tall, wide in ((height, width), (height + 2, width + 5), (1, 1), (30, 151)):
        flat = new.array(tall, wide, channels, dtype=np.uint8)
        planes = new.array(channels, tall, wide, dtype=np.uint8).transpose(1, 2, 0)
        pictures = [flat, planes, flat[:, :, ::-1], planes[:, :, ::-1]]
        for box in (
            (0, 0, height, width),
            (tall - height, wide - width, height, width),
            (-1, -2, height, width),
            (-0.5, 0.3, tall + 1.2, wide),
            (tall - 0.7, wide - 0.2, 2, 3),
        ):
            boxes = np.tile(np.array(box, np.float64), (count, 1))
            for flips in (False, True):
                flipped = np.full(count, flips)
                for more in ((None, None), (colours, None), (colours, of_mean)):
                    for made in passes:
                        plan = PicturePlan(boxes, flipped, *more, offsets)
                        made.write(pictures, plan, out)


RUNS: dict[str, Callable[[Guarded], None]] = {
    **{
        f"direct {name}": lambda new, shape=shape: convolve(Convolution(shape), new)
        for name, shape in SHAPES.items()
    },
    "Winograd": lambda new: convolve(WinogradConvolution(SHAPES["3x3"]), new),
    "Strassen": lambda new: convolve(StrassenConvolution(SHAPES["halves"]), new),
    **{
        f"channels_last {name}": partial(convolve_in_order, InOrder, shape)
        for name, shape in IN_C_ORDER.items()
    },
    **{
        f"channels_last Winograd {outputs} {name}": partial(
            convolve_in_order, partial(WinogradInOrder, outputs=outputs), shape
        )
        for name, shape in IN_C_ORDER_3X3.items()
        for outputs in (2, 4)
    },
    "pooled direct": lambda new: convolve_and_pool("direct", new),
    "pooled Winograd": lambda new: convolve_and_pool("winograd4", new),
    "dense": partial(multiply, np.float32),
    "dense in bfloat16": partial(multiply, STORED),
    **{
        f"{algorithm} {name} of {images} images in bfloat16": partial(
            convolve_in_bfloat16, make, replace(shape, images=images)
        )
        for algorithm, make, names in IN_BFLOAT16
        for name, shape in SHAPES.items()
        if name in names
        for images in (16, 32)
    },
    **{
        f"pictures of {channels} as {size}": partial(pass_over_pictures, size, channels)
        for channels in (1, 3)
        for size in ((5, 4), (3, 17), (4, 48), (3, 67))
    },
}

if __name__ == "__main__":
    for name, run in RUNS.items():
        for at_end in (True, False):
            print(f"{name}, at the {'end' if at_end else 'beginning'}", flush=True)
            run(Guarded(at_end))
