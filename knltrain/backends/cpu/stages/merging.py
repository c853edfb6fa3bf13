"""Stages that join branches."""

from __future__ import annotations

import numpy as np

from knltrain.backends.cpu.stages.normalisation import pass_on
from knltrain.backends.cpu.stages.stage import Run, Stage
from knltrain.backends.cpu.tensor import Flow, Tensor
from vectorized_ops.implementations import Operations

__all__ = ["AdditionStage", "CopyStage"]


class AdditionStage(Stage):
    """The sum of two tensors, with the ReLU behind it if the output is `rectified`."""

    def __init__(
        self, name: str, operations: Operations, inputs: Tensor, addend: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._addend = addend
        self.flows = Flow(inputs, can_mask=False), Flow(addend, can_mask=False)

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Add."""
        self.operations.add(
            self.inputs.values.array,
            self._addend.values.array,
            self.output.values.array,
            self.output.rectified,
        )

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Give the gradient to both."""
        gradient = self.gradient
        for flow in self.flows:
            if flow.is_needed:
                pass_on(self.operations, gradient, flow)

    @property
    def read(self) -> tuple[Tensor, ...]:
        """Both."""
        return self.inputs, self._addend


class CopyStage(Stage):
    """A branch of a concatenation with other consumers: it keeps memory of its own."""

    def __init__(self, name: str, operations: Operations, inputs: Tensor, output: Tensor) -> None:
        super().__init__(name, operations, inputs, output)
        self.flows = (Flow(inputs, can_mask=False),)

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Copy the values into their slice."""
        np.copyto(self.output.values.array, self.inputs.values.array)

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Give the gradient of the slice to the branch."""
        if self.flows[0].is_needed:
            pass_on(self.operations, self.gradient, self.flows[0])
