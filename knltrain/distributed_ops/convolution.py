"""A convolution that owns its weights, its kernels and the sum of its gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, final

from knltrain.communication.reduction import Reducer
from knltrain.distributed_ops.chunks import Chunk, cut
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.weighted import ProductLayer
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import ConvolutionShape


@final
class Convolution(ProductLayer):
    """A convolution of any `shape` with `parameters` weights (K, C/G, R, S) and bias (K,).

    Its gradient is computed and sent in `chunks` of output channels, in whole groups if there are
    several. The bias learns `bias_rate` times as fast. Raises NetworkError for an invalid number of
    chunks.
    """

    kind = "convolution"
    takes = "images"

    def __init__(
        self,
        name: str,
        shape: ConvolutionShape,
        reducer: Reducer,
        options: Options | None = None,
        *,
        bias: bool = True,
        bias_rate: float = 1.0,
        chunks: int = 1,
    ) -> None:
        shapes: dict[str, tuple[int, ...]] = {"weights": shape.weights}
        if bias:
            shapes["bias"] = (shape.filters,)
        super().__init__(name, shapes, reducer, options, rates={"bias": bias_rate})
        self._shape = shape
        self.inputs, self.outputs = (shape.inputs,), shape.outputs
        self._draw("weights", math.prod(shape.weights[1:]))
        self._operation = self._operations.convolution(shape)
        found = cut(name, shape.filters, shape.channels, shape.groups, chunks)
        self._chunks = [(chunk, self._operation_of(chunk)) for chunk in found]
        self._out = self._array(*shape.outputs)
        self._inputs_gradient = self._array(*shape.inputs)

    @property
    def shape(self) -> ConvolutionShape:
        """The shape of the operation, for N images."""
        return self._shape

    def _operation_of(self, chunk: Chunk) -> Any:
        filters = chunk.outputs.stop - chunk.outputs.start
        if filters == self.shape.filters:
            return self._operation
        channels = chunk.inputs.stop - chunk.inputs.start
        part = replace(self.shape, filters=filters, channels=channels, groups=chunk.groups)
        return self._operations.convolution(part)

    def _pieces(self, images: AnyArray, gradient: AnyArray) -> Iterator[tuple[int, int]]:
        """Compute chunk by chunk; the bias is sent with the last."""
        weights, bias = self.gradients["weights"], self.gradients.get("bias")
        row = math.prod(self.shape.weights[1:])
        for chunk, operation in self._chunks:
            operation.backward_weights(
                images[..., chunk.inputs],
                gradient[..., chunk.outputs],
                weights[chunk.outputs],
                None if bias is None else bias[chunk.outputs],
            )
            is_last = chunk.outputs.stop == self.shape.filters
            stop = self._packed.size if is_last else chunk.outputs.stop * row
            yield chunk.outputs.start * row, stop
