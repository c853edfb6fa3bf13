"""Layout conversions: plain images to the first layer, feature maps to a dense layer."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, FORWARD
from knltrain.errors import NetworkError
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import CopyShape


@final
class Images(Layer):
    """Converts up to N plain images to the memory order of the implementation."""

    kind = "images"

    def __init__(
        self, name: str, shape: tuple[int, int, int, int], options: Options | None = None
    ) -> None:
        super().__init__(name, options)
        self._shape, self._out = CopyShape(shape), self._array(*shape)
        self.inputs, self.outputs = (), shape

    def load(self, images_nhwc: AnyArray) -> AnyArray:
        """Return images (n, H, W, C), n <= N, in C order and float32; the others become zero.

        Raises NetworkError for images of another shape or type.
        """
        most, image = self._shape.inputs[0], self._shape.inputs[1:]
        fits = images_nhwc.ndim == 4 and images_nhwc.shape[1:] == image
        if not fits or len(images_nhwc) > most or images_nhwc.dtype != np.float32:
            raise NetworkError(
                f"layer '{self.name}' was given images of shape {images_nhwc.shape} and type "
                f"{images_nhwc.dtype}: expected float32 and at most {most} images of {image}"
            )
        with self.times[FORWARD].computing():
            self._operations.load_images(np.ascontiguousarray(images_nhwc), self._out)
        return self._out

    @property
    def shape(self) -> CopyShape:
        """What it computes, for N images."""
        return self._shape


@final
class Flatten(Layer):
    """Converts maps of `shape` (N, H, W, C) to vectors (N, C*H*W), channel by channel."""

    kind = "flatten"

    def __init__(
        self, name: str, shape: tuple[int, int, int, int], options: Options | None = None
    ) -> None:
        super().__init__(name, options)
        self.inputs, self.outputs = (shape,), (shape[0], math.prod(shape[1:]))
        self._shape = CopyShape(shape)
        self._out = self._array(*self.outputs)
        self._inputs_gradient = self._array(*shape)

    def forward(self, images: AnyArray) -> AnyArray:
        """Return the vectors."""
        self._check("images", images, self._inputs_gradient)
        with self.times[FORWARD].computing():
            self._operations.flatten(images, self._out)
        return self._out

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the maps."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            self._operations.unflatten(gradient, self._inputs_gradient)
        return self._inputs_gradient

    @property
    def shape(self) -> CopyShape:
        """What it computes, for N images."""
        return self._shape
