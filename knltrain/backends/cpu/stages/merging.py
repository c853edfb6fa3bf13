"""Stages that join branches."""

from __future__ import annotations

from typing import Any

from knltrain.backends.cpu.memory import Flow, Tensor
from knltrain.backends.cpu.stages.normalisation import pass_on
from knltrain.backends.cpu.stages.stage import Run, Stage
from vectorized_ops.implementations import Operations

__all__ = ["AdditionStage", "ChannelProductStage", "CopyStage"]


class AdditionStage(Stage):
    """The sum of two tensors, with the ReLU behind it if the output is `rectified`."""

    def __init__(
        self, name: str, operations: Operations, inputs: Tensor, addend: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._addend = addend
        self.flows = Flow(inputs, can_mask=False), Flow(addend, can_mask=False, shares=True)

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


class ChannelProductStage(Stage):
    """Maps times a factor for each channel and image."""

    def __init__(
        self,
        name: str,
        operations: Operations,
        operation: Any,
        inputs: Tensor,
        factors: Tensor,
        output: Tensor,
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._operation, self._factors = operation, factors
        self.flows = Flow(inputs), Flow(factors)

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Multiply."""
        self._operation.forward(
            self.inputs.values.array, self._factors.values.array, self.output.values.array
        )

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Scale the gradient for the maps; sum its products with the maps for the factors."""
        gradient = self.gradient
        maps, factors = self.flows
        if factors.is_needed:
            self._operation.backward_factors(
                gradient, self.inputs.values.array, factors.out, **factors.manner
            )
        if maps.is_needed:
            self._operation.backward_maps(
                gradient, self._factors.values.array, maps.out, **maps.manner
            )

    @property
    def read(self) -> tuple[Tensor, ...]:
        """Both."""
        return self.inputs, self._factors

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """Both."""
        return self.inputs, self._factors


class CopyStage(Stage):
    """A branch of a concatenation with other consumers: it keeps memory of its own."""

    def __init__(self, name: str, operations: Operations, inputs: Tensor, output: Tensor) -> None:
        super().__init__(name, operations, inputs, output)
        self.flows = (Flow(inputs, can_mask=False),)

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Copy the values into their slice."""
        self.operations.affine(1.0).forward(self.inputs.values.array, self.output.values.array)

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Give the gradient of the slice to the branch."""
        if self.flows[0].is_needed:
            pass_on(self.operations, self.gradient, self.flows[0])
