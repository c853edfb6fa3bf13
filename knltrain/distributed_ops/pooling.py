"""Pooling between layers."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, FORWARD
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import (
    AveragePoolingShape,
    GlobalAveragePoolingShape,
    MaxPoolingShape,
    PoolingShape,
)


@final
class MaxPooling(Layer):
    """The largest value of each window of a `shape`, for N `images` with `channels`."""

    kind = "max pooling"

    def __init__(
        self,
        name: str,
        images: int,
        channels: int,
        shape: PoolingShape,
        options: Options | None = None,
    ) -> None:
        super().__init__(name, options)
        self._shape = MaxPoolingShape(images, channels, shape)
        self.inputs, self.outputs = (self._shape.inputs,), self._shape.outputs
        self._operation: Any = self._operations.max_pooling(shape)
        self._out = self._array(*self.outputs)
        self._which: AnyArray = self._operations.activations(self.outputs, np.uint8)
        self._inputs_gradient = self._array(*self._shape.inputs)

    def forward(self, images: AnyArray) -> AnyArray:
        """Return the maxima (N', H', W', C) of images (N', H, W, C)."""
        self._check("images", images, self._inputs_gradient)
        with self.times[FORWARD].computing():
            self._operation.forward(images, self._out, self._which)
        return self._out

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the images of the last `forward`."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            self._operation.backward(gradient, self._which, self._inputs_gradient)
        return self._inputs_gradient

    @property
    def shape(self) -> MaxPoolingShape:
        """The shape of the operation, for N images."""
        return self._shape


class _MeanPooling(Layer):
    """The base of poolings whose gradient needs none of the images."""

    _operation: Any
    _out: AnyArray
    _inputs_gradient: AnyArray

    def forward(self, images: AnyArray) -> AnyArray:
        """Return the means of images (N', H, W, C)."""
        self._check("images", images, self._inputs_gradient)
        with self.times[FORWARD].computing():
            self._operation.forward(images, self._out)
        return self._out

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the images."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            self._operation.backward(gradient, self._inputs_gradient)
        return self._inputs_gradient


@final
class AveragePooling(_MeanPooling):
    """The mean of each window of a `shape`, for N `images` with `channels`."""

    kind = "average pooling"

    def __init__(
        self,
        name: str,
        images: int,
        channels: int,
        shape: PoolingShape,
        options: Options | None = None,
    ) -> None:
        super().__init__(name, options)
        self._shape = AveragePoolingShape(images, channels, shape)
        self.inputs, self.outputs = (self._shape.inputs,), self._shape.outputs
        self._operation = self._operations.average_pooling(shape)
        self._out, self._inputs_gradient = self._array(*self.outputs), self._array(*self.inputs[0])

    @property
    def shape(self) -> AveragePoolingShape:
        """The shape of the operation, for N images."""
        return self._shape


@final
class GlobalAveragePooling(_MeanPooling):
    """The mean (N, C) of each map of `shape` (N, H, W, C)."""

    kind = "global average pooling"

    def __init__(
        self, name: str, shape: tuple[int, int, int, int], options: Options | None = None
    ) -> None:
        super().__init__(name, options)
        self._shape = GlobalAveragePoolingShape(shape)
        self.inputs, self.outputs = (shape,), (shape[0], shape[3])
        self._operation = self._operations.global_average_pooling()
        self._out, self._inputs_gradient = self._array(*self.outputs), self._array(*shape)

    @property
    def shape(self) -> GlobalAveragePoolingShape:
        """The shape of the operation, for N images."""
        return self._shape
