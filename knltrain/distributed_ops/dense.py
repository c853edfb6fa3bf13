"""A dense layer that owns its weights, its kernels and the sum of its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from knltrain.communication.reduction import Reducer
from knltrain.distributed_ops.chunks import cut
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.weighted import ProductLayer
from knltrain.errors import NetworkError
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import DenseShape


@final
class Dense(ProductLayer):
    """From `inputs` to `outputs` for N `images`, with weights (O, I) and bias (O,).

    Its gradient is computed and sent in `chunks` of outputs. The bias learns `bias_rate` times as
    fast. Raises NetworkError for invalid chunks or counts.
    """

    kind = "dense"
    takes = "values"

    def __init__(
        self,
        name: str,
        images: int,
        inputs: int,
        outputs: int,
        reducer: Reducer,
        options: Options | None = None,
        *,
        bias: bool = True,
        bias_rate: float = 1.0,
        chunks: int = 1,
    ) -> None:
        if min(images, inputs, outputs) < 1:
            raise NetworkError(
                f"layer '{name}' from {inputs} inputs to {outputs} outputs for {images} images: "
                "expected at least one of each"
            )
        shapes: dict[str, tuple[int, ...]] = {"weights": (outputs, inputs)}
        if bias:
            shapes["bias"] = (outputs,)
        super().__init__(name, shapes, reducer, options, rates={"bias": bias_rate})
        self._shape = DenseShape(images, inputs, outputs)
        self.inputs, self.outputs = ((images, inputs),), (images, outputs)
        self._draw("weights", inputs)
        self._operation = self._operations.dense(images, inputs, outputs)
        self._chunks = [chunk.outputs for chunk in cut(name, outputs, inputs, 1, chunks)]
        self._by_outputs: dict[int, Any] = {outputs: self._operation}
        for chunk in self._chunks:
            count = chunk.stop - chunk.start
            if count not in self._by_outputs:
                self._by_outputs[count] = self._operations.dense(images, inputs, count)
        self._out = self._array(images, outputs)
        self._inputs_gradient = self._array(images, inputs)

    @property
    def shape(self) -> DenseShape:
        """The shape of the operation, for N images."""
        return self._shape

    def _pieces(self, values: AnyArray, gradient: AnyArray) -> Iterator[tuple[int, int]]:
        """Compute chunk by chunk; the bias is sent with the last."""
        weights, bias = self.gradients["weights"], self.gradients.get("bias")
        inputs, outputs = self._shape.inputs, self._shape.units
        for chunk in self._chunks:
            self._by_outputs[chunk.stop - chunk.start].backward_weights(
                values,
                gradient[:, chunk],
                weights[chunk],
                None if bias is None else bias[chunk],
            )
            stop = self._packed.size if chunk.stop == outputs else chunk.stop * inputs
            yield chunk.start * inputs, stop
