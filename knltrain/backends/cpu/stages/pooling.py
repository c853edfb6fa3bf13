"""Stages that pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from knltrain.backends.cpu.memory import Buffer, Place, Tensor
from knltrain.backends.cpu.stages.stage import OperationStage, Run, Stage
from vectorized_ops.implementations import Operations

__all__ = ["AveragePoolingStage", "MaxPoolingStage"]


class MaxPoolingStage(Stage):
    """Max pooling; keeps one byte for the argmax of each window instead of the inputs."""

    def __init__(
        self, name: str, operations: Operations, operation: Any, inputs: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._operation = operation
        images = output.values.buffer.shape[0]
        self._which = Place(Buffer(f"{name} places", (images, *output.shape), np.uint8))

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Write the maxima and their argmax."""
        self._operation.forward(
            self.inputs.values.array, self.output.values.array, self._which.array
        )

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Add each gradient to the pixel at the argmax."""
        flow = self.flows[0]
        if flow.is_needed:
            self._operation.backward(self.gradient, self._which.array, flow.out, **flow.manner)

    @property
    def remembered(self) -> tuple[Place, ...]:
        """The argmax in each window."""
        return (self._which,)


class AveragePoolingStage(OperationStage):
    """Average pooling over windows, or over whole maps."""
