"""The interface of a stage: one operation of a plan, forward and backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knltrain.backends.cpu.memory import Flow, Place, Tensor
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray

__all__ = ["OperationStage", "Run", "Stage", "Views"]

Views = Mapping[str, AnyArray]
"""Parameters or their gradients by name."""


@dataclass(slots=True)
class Run:
    """One pass through the plan: `images` real images; `key` determines dropout's decisions.

    `first_image` is the number of the first of them in the batch.
    """

    parameters: Views
    gradients: Views
    images: int
    training: bool
    key: int = 0
    first_image: int = 0


class Stage(ABC):
    """One operation of the plan, named after its layer; `flows` are its shares in gradients.

    `layers` are those that it computes: none for what brings values into another order. A stage
    only computes: its arrays are bound when the plan has an arena.
    """

    def __init__(self, name: str, operations: Operations, inputs: Tensor, output: Tensor) -> None:
        self.name, self.operations = name, operations
        self.inputs, self.output = inputs, output
        self.flows: tuple[Flow, ...] = (Flow(inputs),)
        self.layers: tuple[str, ...] = ()

    @abstractmethod
    def forward(self, run: Run) -> None:
        """Compute the output's values."""

    @abstractmethod
    def backward(self, run: Run) -> None:
        """Compute the gradients of parameters and inputs from that of the output."""

    @property
    def backward_parts(self) -> Sequence[tuple[str, Callable[[Run], None]]]:
        """The backward pass by directions, in order, once the plan is wired."""
        return (("backward", self.backward),)

    @property
    def repeats(self) -> bool:
        """Whether passes with the same arrays do nothing but call kernels, each time alike.

        Where operations compute by kernels alone, what else a stage that says so does is lost in
        later passes: see `vectorized_ops.numba.compiling.replay`.
        """
        return True

    @property
    def remembered(self) -> tuple[Place, ...]:
        """Arrays that the forward pass leaves for the backward pass, besides values of tensors."""
        return ()

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """Tensors whose values the backward pass reads."""
        return ()

    @property
    def read(self) -> tuple[Tensor, ...]:
        """Tensors whose values the forward pass reads."""
        return (self.inputs,)

    @property
    def scratch_users(self) -> tuple[Any, ...]:
        """Operations that need `scratch_size` floats of memory during a call, and only then."""
        return ()

    @property
    def choices(self) -> dict[str, dict[str, object]]:
        """By direction, the `algorithm` and the `seconds` of all its candidates.

        Empty where there is only one algorithm.
        """
        return {}

    @property
    def gradient(self) -> AnyArray:
        """The output's gradient, with zeros where a ReLU cut values off."""
        assert self.output.gradient is not None
        gradient = self.output.gradient.array
        if self.masks:
            self.operations.relu_backward(gradient, self.output.values.array, gradient)
        return gradient

    @property
    def masks(self) -> bool:
        """Whether the output's gradient comes without the zeros where a ReLU cut values off."""
        return self.output.rectified and not self.output.masked


class OperationStage(Stage, ABC):
    """The base of stages of one operation, which needs nothing of the forward pass to go back."""

    def __init__(
        self, name: str, operations: Operations, operation: Any, inputs: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._operation = operation

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Compute the outputs of the inputs."""
        self._operation.forward(self.inputs.values.array, self.output.values.array)

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Compute the gradient of the inputs of that of the output."""
        flow = self.flows[0]
        if flow.is_needed:
            self._operation.backward(self.gradient, flow.out, **flow.manner)


def channel_zeros(channels: int) -> AnyArray:
    """A float32 vector of zeros, one per channel, for numbers kept from a pass to the next."""
    return np.zeros(channels, np.float32)
