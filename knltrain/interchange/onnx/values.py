"""What a value of an ONNX graph holds of an output of our layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from knltrain.network.layers import Shape

Form: TypeAlias = Literal[
    "map", "map last", "flat", "groups", "shuffled", "vector", "mean", "mean last", "line"
]
"""Of a value: a map (N,C,H,W), as (N,H,W,C), as (N,CHW), in groups (N,g,C/g,H,W), or these shuffled
(N,C/g,g,H,W); a vector (N,C), as (N,C,1,1), as (N,1,1,C) or as (N,C,1)."""

EVERY: Final[tuple[Form, ...]] = get_args(Form)
GROUPED: Final = ("groups", "shuffled")
_LAST: Final = ("map last", "mean last")
CHANNEL_AXES: Final[Mapping[str, int]] = dict.fromkeys(_LAST, 3)
"""Form -> the axis of channels, where it is not 1."""


@dataclass(frozen=True, slots=True)
class Value:
    """Outputs of our layer, of that shape of one image (H,W,C) or (units,), in a form.

    `groups` are those of its channels, where it is in groups.
    """

    layer: str
    shape: Shape
    form: Form
    groups: int = 1

    def dims(self, images: int) -> tuple[int, ...]:
        """Its shape in ONNX."""
        if self.form == "map":
            height, width, channels = self.shape
            return images, channels, height, width
        if self.form == "map last":
            return images, *self.shape
        if self.form in GROUPED:
            height, width, channels = self.shape
            parts = (self.groups, channels // self.groups)
            return images, *(parts if self.form == "groups" else parts[::-1]), height, width
        if self.form == "mean last":
            return images, 1, 1, *self.shape
        if self.form == "mean":
            return images, *self.shape, 1, 1
        if self.form == "line":
            return images, *self.shape, 1
        return images, math.prod(self.shape)

    def is_by_channel(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape has a number for each channel."""
        axes = len(self.dims(1)) - CHANNEL_AXES.get(self.form, 1)
        wanted = (self.shape[-1],) + (1,) * (axes - 1)
        before = len(shape) - len(wanted)
        is_broadcast = 0 <= before <= len(self.dims(1)) - axes and set(shape[:before]) <= {1}
        return self.form not in GROUPED and is_broadcast and shape[before:] == wanted
