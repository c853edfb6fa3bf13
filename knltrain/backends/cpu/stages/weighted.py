"""Stages with weights: convolutions, dense layers, and the flattening of maps for the latter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from knltrain.backends.cpu.memory import Buffer, Flow, Place, Tensor
from knltrain.backends.cpu.stages.stage import Run, Stage
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray

__all__ = ["FlattenStage", "PooledConvolutionStage", "WeightedStage"]


class WeightedStage(Stage):
    """A convolution or a dense layer, with the ReLU behind it if the output is `rectified`.

    If it `gives_moments`, a normalisation that is the output's only consumer may set `gathers`, and
    finds in `moments` those of the last forward pass in training.
    """

    def __init__(
        self,
        name: str,
        operations: Operations,
        operation: Any,
        inputs: Tensor,
        output: Tensor,
        bias: bool,
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self.operation = operation
        self._weights, self._bias = f"{name}.weights", f"{name}.bias" if bias else None
        self.gathers = False
        self._moments: dict[int, Any] = {}

    def forward(self, run: Run) -> None:
        """Multiply or correlate with the weights; in training gather moments if it `gathers`."""
        extra = {"moments": self.moments(run.images)} if self.gathers and run.training else {}
        self.operation.forward(
            self.inputs.values.array,
            run.parameters[self._weights],
            None if self._bias is None else run.parameters[self._bias],
            self.output.values.array,
            self.output.rectified,
            **extra,
        )

    def moments(self, images: int) -> Any:
        """Return the accumulator for the moments of so many images' results."""
        if images not in self._moments:
            self._moments[images] = self.operation.moments(images)
        return self._moments[images]

    @property
    def gives_moments(self) -> bool:
        """Whether the operation can gather the moments of its results as it writes them."""
        return getattr(self.operation, "gives_moments", False)

    def backward(self, run: Run) -> None:
        """Backward-weights and, where needed, backward-data."""
        for _, part in self.backward_parts:
            part(run)

    @property
    def backward_parts(self) -> Sequence[tuple[str, Callable[[Run], None]]]:
        """The ReLU's mask where it falls to this stage, backward-weights, and backward-data."""
        parts: list[tuple[str, Callable[[Run], None]]] = []
        if self.masks:
            parts.append(("mask", self._mask))
        parts.append(("backward_weights", self._backward_weights))
        if self.flows[0].is_needed:
            parts.append(("backward_data", self._backward_data))
        return parts

    def _mask(self, run: Run) -> None:  # noqa: ARG002
        _ = self.gradient

    def _backward_weights(self, run: Run) -> None:
        self.operation.backward_weights(
            self.inputs.values.array,
            self._masked_gradient,
            run.gradients[self._weights],
            None if self._bias is None else run.gradients[self._bias],
        )

    def _backward_data(self, run: Run) -> None:
        weights, flow = run.parameters[self._weights], self.flows[0]
        self.operation.backward_data(self._masked_gradient, weights, flow.out, **flow.manner)

    @property
    def _masked_gradient(self) -> AnyArray:
        assert self.output.gradient is not None
        return self.output.gradient.array

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs, for the gradient of the weights."""
        return (self.inputs,)

    @property
    def scratch_users(self) -> tuple[Any, ...]:
        """The operation, in implementations that work in scratch memory."""
        return (self.operation,) if hasattr(self.operation, "scratch_size") else ()

    @property
    def choices(self) -> dict[str, dict[str, object]]:
        """The choices of a tuned operation, for the directions that are computed."""
        return {
            direction: {"algorithm": choice.name, "seconds": choice.seconds}
            for direction, choice in getattr(self.operation, "choices", {}).items()
            if direction != "backward_data" or self.flows[0].is_needed
        }


class PooledConvolutionStage(Stage):
    """A convolution and the 2x2 max pooling behind it, fused."""

    def __init__(
        self, name: str, operations: Operations, operation: Any, inputs: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self.flows = (Flow(inputs, can_mask=False),)
        self.operation = operation
        self._weights, self._bias = f"{name}.weights", f"{name}.bias"
        shape = output.values.buffer.shape[0], *output.shape
        self._which = Place(Buffer(f"{name} places", shape, np.uint8))

    def forward(self, run: Run) -> None:
        """Correlate and pool."""
        self.operation.forward(
            self.inputs.values.array,
            run.parameters[self._weights],
            run.parameters[self._bias],
            self.output.values.array,
            self._which.array,
        )

    def backward(self, run: Run) -> None:
        """Backward-weights and, where needed, backward-data."""
        self.operation.backward(
            self.inputs.values.array,
            self.gradient,
            self._which.array,
            run.parameters[self._weights],
            run.gradients[self._weights],
            run.gradients[self._bias],
            self.flows[0].out if self.flows[0].is_needed else None,
        )

    @property
    def choices(self) -> dict[str, dict[str, object]]:
        """The algorithm follows from the shape, and is the same in both directions."""
        each: dict[str, object] = {"algorithm": self.operation.algorithm, "seconds": {}}
        return {"forward": each, "backward": each}

    @property
    def remembered(self) -> tuple[Place, ...]:
        """The argmax in each window."""
        return (self._which,)

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs, for the gradient of the weights."""
        return (self.inputs,)


class FlattenStage(Stage):
    """Flattens maps into vectors, channel by channel."""

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Copy the values into their new order."""
        self.operations.flatten(self.inputs.values.array, self.output.values.array)

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Copy the gradient back."""
        flow = self.flows[0]
        if flow.is_needed:
            self.operations.unflatten(self.gradient, flow.out, **flow.manner)
