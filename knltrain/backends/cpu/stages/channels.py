"""Stages that choose, reorder or scale whole channels."""

from __future__ import annotations

from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.stages.stage import OperationStage, Run

__all__ = ["ChannelScaleStage", "ChannelSelectionStage"]


class ChannelSelectionStage(OperationStage):
    """A slice or a shuffle of channels."""


class ChannelScaleStage(OperationStage):
    """Channels times trained factors."""

    def forward(self, run: Run) -> None:
        """Multiply."""
        scale = run.parameters[f"{self.name}.scale"]
        self._operation.forward(self.inputs.values.array, scale, self.output.values.array)

    def backward(self, run: Run) -> None:
        """Sum up for the factors; scale the gradient for the values."""
        gradient, flow, scale = self.gradient, self.flows[0], f"{self.name}.scale"
        self._operation.backward_scale(self.inputs.values.array, gradient, run.gradients[scale])
        if flow.is_needed:
            self._operation.backward(gradient, run.parameters[scale], flow.out, **flow.manner)

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs, for the gradient of the factors."""
        return (self.inputs,)
