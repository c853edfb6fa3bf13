"""Stages that normalise: by the batch's statistics, or by neighbouring channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from knltrain.backends.cpu.stages.stage import Run, Stage, channel_zeros
from knltrain.backends.cpu.stages.weighted import WeightedStage
from knltrain.backends.cpu.tensor import Flow, Tensor
from knltrain.errors import NetworkError
from vectorized_ops.implementations import Operations

__all__ = ["BatchNormalisationStage", "LocalResponseNormalisationStage"]


class BatchNormalisationStage(Stage):
    """Batch normalisation, with the addition and the ReLU behind it where these were fused.

    With an `addend` the output's gradient is also the addend's: `flows[1]`, which shares its memory
    if it is the first share. A ReLU without addend is recomputed from the inputs in the backward
    pass, so the output's values need not be kept. Training raises NetworkError for batches of a
    single value per channel.
    """

    def __init__(
        self,
        name: str,
        operations: Operations,
        inputs: Tensor,
        output: Tensor,
        epsilon: float,
        relu: bool,
        addend: Tensor | None = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._epsilon, self._relu, self._addend = epsilon, relu, addend
        self._frozen = frozen
        self.flows = (Flow(inputs, can_mask=False),)
        if addend is not None:
            self.flows += (Flow(addend, can_mask=False, shares=True),)
        channels = inputs.shape[2]
        self._mean, self._variance = channel_zeros(channels), channel_zeros(channels)
        self._by_images: dict[int, Any] = {}
        self._source: WeightedStage | None = None

    def let_gather(self, source: WeightedStage) -> None:
        """Have the stage that writes the inputs gather their moments, if it can."""
        if source.gives_moments and not self._frozen:
            source.gathers, self._source = True, source

    def forward(self, run: Run) -> None:
        """Normalise, by the batch's own statistics in training and the running ones otherwise."""
        operation, values = self._operation(run.images), self.inputs.values.array
        if run.training and not self._frozen:
            self._check_count(run.images)
            mean, variance = self._mean, self._variance
            if self._source is None:
                operation.statistics(values, mean, variance)
            else:
                self._source.moments(run.images).write(mean, variance)
        else:
            mean = run.parameters[f"{self.name}.running_mean"]
            variance = run.parameters[f"{self.name}.running_variance"]
            if self._frozen:
                self._mean, self._variance = mean, variance
        operation.forward(
            values,
            mean,
            variance,
            run.parameters[f"{self.name}.scale"],
            run.parameters[f"{self.name}.shift"],
            self.output.values.array,
            None if self._addend is None else self._addend.values.array,
            self._relu,
        )

    def backward(self, run: Run) -> None:
        """Gradients of scale, shift, running statistics (their distance to the batch's), values."""
        gradient, flow = self.gradient, self.flows[0]
        self._operation(run.images).backward(
            self.inputs.values.array,
            gradient,
            self._mean,
            self._variance,
            run.parameters[f"{self.name}.scale"],
            run.parameters[f"{self.name}.shift"],
            self._relu and self._addend is None,
            run.gradients[f"{self.name}.scale"],
            run.gradients[f"{self.name}.shift"],
            flow.out if flow.is_needed else gradient,
            flow.add,
            self._frozen,
        )
        self._statistics_gradient(run)
        if self._addend is not None and self.flows[1].is_needed:
            pass_on(self.operations, gradient, self.flows[1])

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs."""
        return (self.inputs,)

    @property
    def read(self) -> tuple[Tensor, ...]:
        """The inputs, and the addend."""
        return (self.inputs,) if self._addend is None else (self.inputs, self._addend)

    def _statistics_gradient(self, run: Run) -> None:
        if self._frozen:
            for statistic in ("running_mean", "running_variance"):
                run.gradients[f"{self.name}.{statistic}"].fill(0)
            return
        count = self._count(run.images)
        unbiased = np.float32(count / (count - 1))
        for statistic, found, factor in (
            ("running_mean", self._mean, np.float32(1)),
            ("running_variance", self._variance, unbiased),
        ):
            running = f"{self.name}.{statistic}"
            out = run.gradients[running]
            np.multiply(found, factor, out=out)
            np.subtract(run.parameters[running], out, out=out)

    def _count(self, images: int) -> int:
        """Return how many values of a channel a batch has."""
        height, width, _ = self.inputs.shape
        return images * height * width

    def _check_count(self, images: int) -> None:
        if self._count(images) < 2:
            raise NetworkError(
                f"layer '{self.name}' normalises maps of one pixel, but the batch has one image: "
                "the variance of one value is not defined, give two images or more"
            )

    def _moments(self, images: int) -> Any:
        return self._operation(images).moments(len(self.inputs.values.array))

    def _operation(self, images: int) -> Any:
        if images not in self._by_images:
            self._by_images[images] = self.operations.batch_normalisation(
                images, *self.inputs.shape, self._epsilon
            )
        return self._by_images[images]


class LocalResponseNormalisationStage(Stage):
    """Local response normalisation across channels."""

    def __init__(
        self, name: str, operations: Operations, operation: Any, inputs: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._operation = operation

    def forward(self, run: Run) -> None:  # noqa: ARG002
        """Normalise by the sum of squares around."""
        self._operation.forward(self.inputs.values.array, self.output.values.array)

    def backward(self, run: Run) -> None:  # noqa: ARG002
        """Compute the sums again from the inputs."""
        flow = self.flows[0]
        if flow.is_needed:
            self._operation.backward(
                self.inputs.values.array, self.gradient, flow.out, **flow.manner
            )

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs."""
        return (self.inputs,)


def pass_on(operations: Operations, gradient: Any, flow: Flow) -> None:
    """Give a gradient to an input of an addition; where both share memory it is there already."""
    if flow.add:
        operations.add(flow.out, gradient, flow.out)
    elif flow.out is not gradient and not np.shares_memory(flow.out, gradient):
        np.copyto(flow.out, gradient)
