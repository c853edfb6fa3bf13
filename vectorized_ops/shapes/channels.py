"""Operations on whole channels: selections of them, and trained factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from vectorized_ops.implementations import Operations
from vectorized_ops.shapes.operation import Calls, Cost, TimedShape, by, passes

__all__ = ["ChannelScaleShape", "ChannelSelectionShape", "shuffled_channels"]


def shuffled_channels(channels: int, groups: int) -> tuple[int, ...]:
    """The first channel of each group, then the second of each, and so on.

    ShuffleNet's channel shuffle (Zhang et al., CVPR 2018); `channels` is a multiple of `groups`.
    """
    size = channels // groups
    return tuple(group * size + place for place in range(size) for group in range(groups))


@dataclass(frozen=True, slots=True)
class ChannelSelectionShape(TimedShape):
    """Channels `first` to `last` (not included) of maps (N, H, W, C) or vectors (N, C).

    With several `groups` they are shuffled.
    """

    kind: ClassVar[str] = "channel selection"

    inputs: tuple[int, ...]
    first: int
    last: int
    groups: int = 1

    @property
    def chosen(self) -> tuple[int, ...]:
        """The channels in their order."""
        shuffled = shuffled_channels(self.last - self.first, self.groups)
        return tuple(self.first + channel for channel in shuffled)

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A read and a write of what is chosen; backward writes zeros beside it."""
        chosen = math.prod(self.inputs[:-1]) * (self.last - self.first)
        whole = passes(math.prod(self.inputs), 0, 1)
        return {"forward": passes(chosen, 0, 2), "backward_data": passes(chosen, 0, 1) + whole}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        operation, count = operations.channel_selection(self.chosen), self.last - self.first
        values = operand(operations, self.inputs)
        out = operand(operations, (*self.inputs[:-1], count))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, out, values),
        }
        return Calls(runs)

    def __str__(self) -> str:
        chosen = f"{by(self.inputs[1:])} channels {self.first} to {self.last - 1}"
        return chosen if self.groups == 1 else f"{chosen} in {self.groups} groups"


@dataclass(frozen=True, slots=True)
class ChannelScaleShape(TimedShape):
    """Each channel of maps (N, H, W, C) or vectors (N, C) times a trained factor."""

    kind: ClassVar[str] = "channel scale"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """The gradient of the factors reads values and gradient; that of the values is forward."""
        values = math.prod(self.inputs)
        product = passes(values, 1, 2)
        return {"forward": product, "backward_data": product, "backward_weights": product}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import channel_values, operand

        operation = operations.channel_scale()
        values, out = (operand(operations, self.inputs) for _ in range(2))
        scale, sums = channel_values(1.0, self.inputs[-1], 2)
        runs = {
            "forward": partial(operation.forward, values, scale, out),
            "backward_data": partial(operation.backward, out, scale, values),
            "backward_weights": partial(operation.backward_scale, values, out, sums),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])
