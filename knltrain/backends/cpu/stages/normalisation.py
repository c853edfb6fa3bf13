"""Stages that normalise: by the batch's statistics, or by neighbouring channels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from knltrain.backends.cpu.memory import Flow, Tensor
from knltrain.backends.cpu.stages.stage import Run, Stage, channel_zeros
from knltrain.backends.cpu.stages.weighted import WeightedStage
from knltrain.errors import NetworkError
from vectorized_ops.epilogue import IDENTITY, Epilogue
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray

__all__ = [
    "BatchNormalisationStage",
    "LayerNormalisationStage",
    "LocalResponseNormalisationStage",
    "Statistics",
]


class Statistics(NamedTuple):
    """A tensor whose statistics are wanted, and the stage that has them; else they are computed."""

    tensor: Tensor
    source: WeightedStage | BatchNormalisationStage | None = None


class BatchNormalisationStage(Stage):
    """Batch normalisation, with the addition and the activation behind it if these were fused.

    With an `addend` the output's gradient is also the addend's: `flows[1]`, which shares its memory
    if it is the first share. The epilogue behind a sum is at most a ReLU. Without addend its slope
    is computed from the inputs again in the backward pass, so the output's values need not be kept.
    Training raises NetworkError for batches of a single value per channel.
    """

    def __init__(
        self,
        name: str,
        operations: Operations,
        inputs: Tensor,
        output: Tensor,
        epsilon: float,
        epilogue: Epilogue,
        addend: Tensor | None = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._epsilon, self._epilogue, self._addend = epsilon, epilogue, addend
        self._frozen = frozen
        self.flows = (Flow(inputs, can_mask=False),)
        if addend is not None:
            self.flows += (Flow(addend, can_mask=False, shares=True),)
        channels = inputs.shape[-1]
        self._mean, self._variance = channel_zeros(channels), channel_zeros(channels)
        self._by_size: dict[tuple[int, int], Any] = {}
        self.pieces = [Statistics(inputs)]

    def take_statistics(self, pieces: list[Statistics]) -> None:
        """Take the statistics of pieces of the inputs from stages before, as far as they can."""
        self.pieces = pieces
        for piece in pieces:
            if isinstance(piece.source, WeightedStage) and piece.source.gives_moments:
                piece.source.gathers = True

    def forward(self, run: Run) -> None:
        """Normalise, by the batch's own statistics in training and the running ones otherwise."""
        operation, values = self._operation(run.images), _maps(self.inputs.values.array)
        if run.training and not self._frozen:
            self._check_count(run.images)
            mean, variance = self._mean, self._variance
            self._write_statistics(run.images)
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
            _maps(self.output.values.array),
            None if self._addend is None else _maps(self._addend.values.array),
            self._epilogue,
        )

    def backward(self, run: Run) -> None:
        """Gradients of scale, shift, running statistics (their distance to the batch's), values."""
        gradient, flow = self.gradient, self.flows[0]
        self._operation(run.images).backward(
            _maps(self.inputs.values.array),
            _maps(gradient),
            self._mean,
            self._variance,
            run.parameters[f"{self.name}.scale"],
            run.parameters[f"{self.name}.shift"],
            self._epilogue if self._addend is None else IDENTITY,
            run.gradients[f"{self.name}.scale"],
            run.gradients[f"{self.name}.shift"],
            _maps(flow.out if flow.is_needed else gradient),
            flow.add,
            self._frozen,
        )
        self._statistics_gradient(run)
        if self._addend is not None and self.flows[1].is_needed:
            pass_on(self.operations, gradient, self.flows[1])

    @property
    def repeats(self) -> bool:
        """Not with statistics that are fixed, or another normalisation's."""
        others = (isinstance(piece.source, BatchNormalisationStage) for piece in self.pieces)
        return not self._frozen and not any(others)

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs."""
        return (self.inputs,)

    @property
    def read(self) -> tuple[Tensor, ...]:
        """The inputs, also in pieces, and the addend."""
        pieces = (each.tensor for each in self.pieces if each.tensor is not self.inputs)
        return (self.inputs, *pieces, *(() if self._addend is None else (self._addend,)))

    def _write_statistics(self, images: int) -> None:
        start = 0
        for tensor, source in self.pieces:
            channels = tensor.shape[-1]
            mean, variance = (
                whole[start : start + channels] for whole in (self._mean, self._variance)
            )
            if isinstance(source, BatchNormalisationStage):
                mean[:], variance[:] = source._mean, source._variance
            elif source is not None and source.gives_moments:
                source.moments(images).write(mean, variance)
            else:
                operation = self._operation(images, channels)
                operation.statistics(_maps(tensor.values.array), mean, variance)
            start += channels

    def _statistics_gradient(self, run: Run) -> None:
        if self._frozen:
            for statistic in ("running_mean", "running_variance"):
                run.gradients[f"{self.name}.{statistic}"].fill(0)
            return
        count = self._count(run.images)
        for statistic, found, factor in (
            ("running_mean", self._mean, 1.0),
            ("running_variance", self._variance, count / (count - 1)),
        ):
            name = f"{self.name}.{statistic}"
            self.operations.running_gradient(
                run.parameters[name], found, factor, run.gradients[name]
            )

    def _count(self, images: int) -> int:
        """Return how many values of a channel a batch has."""
        return images * math.prod(self.inputs.shape[:-1])

    def _check_count(self, images: int) -> None:
        if self._count(images) < 2:
            raise NetworkError(
                f"layer '{self.name}' normalises maps of one pixel, but the batch has one image: "
                "the variance of one value is not defined, give two images or more"
            )

    def _operation(self, images: int, channels: int | None = None) -> Any:
        _, height, width, all_channels = _maps(self.inputs.values.array).shape
        size = images, channels or all_channels
        if size not in self._by_size:
            self._by_size[size] = self.operations.batch_normalisation(
                images, height, width, size[1], self._epsilon
            )
        return self._by_size[size]


class LayerNormalisationStage(Stage):
    """Layer normalisation over the channels of each pixel."""

    def __init__(
        self, name: str, operations: Operations, operation: Any, inputs: Tensor, output: Tensor
    ) -> None:
        super().__init__(name, operations, inputs, output)
        self._operation = operation
        self._scale, self._shift = f"{name}.scale", f"{name}.shift"

    def forward(self, run: Run) -> None:
        """Normalise each pixel by itself."""
        self._operation.forward(
            self.inputs.values.array,
            run.parameters[self._scale],
            run.parameters[self._shift],
            self.output.values.array,
        )

    def backward(self, run: Run) -> None:
        """Gradients of scale, shift and values; mean and variance are computed again."""
        gradient, flow = self.gradient, self.flows[0]
        self._operation.backward(
            self.inputs.values.array,
            gradient,
            run.parameters[self._scale],
            run.gradients[self._scale],
            run.gradients[self._shift],
            flow.out if flow.is_needed else gradient,
            **flow.manner,
        )

    @property
    def values_again(self) -> tuple[Tensor, ...]:
        """The inputs."""
        return (self.inputs,)


class LocalResponseNormalisationStage(Stage):
    """Local response normalisation across channels, or within them."""

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


def _maps(array: AnyArray) -> AnyArray:
    """Vectors (N,C) as maps (N,1,1,C); maps as they are."""
    return array if array.ndim == 4 else array[:, None, None, :]


def pass_on(operations: Operations, gradient: Any, flow: Flow) -> None:
    """Give a gradient to an input of an addition; where both share memory it is there already."""
    if flow.add:
        operations.add(flow.out, gradient, flow.out)
    elif flow.out is not gradient and not np.shares_memory(flow.out, gradient):
        operations.affine(1.0).backward(gradient, flow.out)
