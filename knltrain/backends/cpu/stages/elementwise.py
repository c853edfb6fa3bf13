"""Elementwise stages: activation functions and dropout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from knltrain.backends.cpu.memory import Flow, Tensor
from knltrain.backends.cpu.stages.stage import OperationStage, Run, Stage
from vectorized_ops.bfloat16 import copy_values
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray

__all__ = [
    "ActivationStage",
    "AffineStage",
    "DropoutStage",
    "PReLUStage",
    "PaddingStage",
    "ReLUStage",
    "RectifierStage",
]


class ReLUStage(Stage):
    """A plain ReLU that is not fused with another stage, in the memory of its input."""

    def __init__(self, name: str, operations: Operations, inputs: Tensor, output: Tensor) -> None:
        super().__init__(name, operations, inputs, output)
        self.flows = ()

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Set negative values to 0."""
        self.operations.relu_forward(self.inputs.values.array, self.output.values.array)

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Apply the mask, unless another stage has."""
        if self.output.gradient is not None:
            _ = self.gradient


class AffineStage(OperationStage):
    """A factor and a summand for each value."""


class PaddingStage(OperationStage):
    """Constant lines and pixels around maps."""


class PReLUStage(OperationStage):
    """A rectifier with learned slopes."""

    def forward(self, run: Run) -> None:
        """Multiply values below 0 by the slopes."""
        slopes = run.parameters[f"{self.name}.slopes"]
        self._operation.forward(self.inputs.values.array, slopes, self.output.values.array)

    def backward(self, run: Run) -> None:
        """Compute the gradients of the slopes and of the inputs in one pass."""
        gradient, flow, name = self.gradient, self.flows[0], f"{self.name}.slopes"
        self._operation.backward(
            self.inputs.values.array,
            gradient,
            run.parameters[name],
            run.gradients[name],
            flow.out if flow.is_needed else gradient,
            **(flow.manner if flow.is_needed else {}),
        )

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs."""
        return (self.inputs,)


class _SlopeStage(OperationStage, ABC):
    """The base of stages that multiply the gradient by a slope, which follows from `told`."""

    def __init__(
        self, name: str, operations: Operations, operation: Any, inputs: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, operation, inputs, output)
        self.flows = (Flow(inputs, can_mask=False),)

    @property
    @abstractmethod
    def told(self) -> Tensor:
        """The tensor whose values tell the slope."""

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Multiply the gradient by the slope at each value."""
        flow = self.flows[0]
        if flow.is_needed:
            told = self.told.values.array
            self._operation.backward(self.gradient, told, flow.out, add=flow.add)

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """Those that tell the slope."""
        return (self.told,)


class ActivationStage(_SlopeStage):
    """A smooth activation function."""

    @property
    def told(self) -> Tensor:
        """The inputs."""
        return self.inputs


class RectifierStage(_SlopeStage):
    """A leaky or clipped ReLU."""

    @property
    def told(self) -> Tensor:
        """The outputs."""
        return self.output


class DropoutStage(Stage):
    """Dropout; in evaluation the values pass as they are.

    `number` keeps the decisions of the network's dropout layers apart.
    """

    def __init__(
        self,
        name: str,
        operations: Operations,
        operation: Any,
        inputs: Tensor,
        output: Tensor,
        number: int,
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._operation, self._number = operation, number

    def forward(self, run: Run) -> None:
        """Drop in training."""
        values, out = self.inputs.values.array, self.output.values.array
        if run.training:
            self._operation.forward(values, out, self._key(run), run.first_image)
        elif not _same(values, out):
            copy_values(values, out)

    def backward(self, run: Run) -> None:
        """Drop the same of the gradient."""
        flow = self.flows[0]
        if flow.is_needed:
            self._operation.backward(
                self.gradient,
                flow.out,
                self._key(run),
                first_image=run.first_image,
                **flow.manner,
            )

    @property
    def repeats(self) -> bool:
        """No: each pass has a key of its own."""
        return False

    def _key(self, run: Run) -> int:
        return (run.key * 2**8 + self._number) % 2**64


def _same(values: AnyArray, out: AnyArray) -> bool:
    return values.ctypes.data == out.ctypes.data
