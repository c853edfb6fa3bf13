"""A layer in PyTorch's terms: modules that compute it, and the call of ATen that it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, final

from knltrain.errors import NetworkError
from knltrain.network.layers import Layer, Pair, Role, Shape

TORCH_NAMES = {
    "weights": "weight",
    "bias": "bias",
    "scale": "weight",
    "shift": "bias",
    "slopes": "weight",
    "running_mean": "running_mean",
    "running_variance": "running_var",
}
"""Role of a parameter -> what PyTorch calls it."""

Join: TypeAlias = Literal["cat", "add", "channel product"]
"""How several inputs are joined: `torch.cat` of channels, `torch.add`, or maps times factors."""


@dataclass(frozen=True, slots=True)
class TorchModule:
    """A class of `torch.nn`, and the arguments of an instance."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TorchTerms:
    """A layer: how its inputs are joined, if there are several, and the modules that follow."""

    modules: tuple[TorchModule, ...] = ()
    join: Join | None = None


Terms: TypeAlias = Mapping[type[Layer], Callable[[Any, Shape], TorchTerms]]
"""Class of a layer -> its terms, from the layer and the shape of its inputs."""


@final
@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation, with the layer's name and inputs, and the shapes of its tensors.

    `where` is its place in the user's module. `forms` are those of the inputs, see ANY. `shapes`
    are, by argument, those of one image, (C,H,W) or (units,), and of `parameters`, the arguments
    that are parameters or buffers of the module.
    """

    name: str
    inputs: tuple[str, ...]
    forms: tuple[str, ...]
    arguments: Mapping[str, Any]
    shapes: Mapping[str, Shape]
    where: str
    parameters: Set[str] = frozenset()

    def refused(self, what: str) -> NetworkError:
        """The error of what a network cannot express."""
        return NetworkError(f"{self.where}: {what}")

    def axes(self, given: Any, form: str) -> tuple[int, ...]:
        """Axes of a value of this form, or one, counted from its first behind that of images."""
        count = 1 if form in ("flat", "vector") else 3
        found = given if isinstance(given, list | tuple) else [given]
        if not all(isinstance(axis, int) and -count <= axis <= count and axis for axis in found):
            raise self.refused(f"dim = {given}, expected axes of one image")
        return tuple((axis - 1) if axis > 0 else axis + count for axis in found)

    def expect_channels(self, key: str = "dim") -> None:
        """Raise NetworkError unless an argument is the axis of the first input's channels."""
        axis = CHANNEL_AXES.get(self.forms[0])
        if axis is None or self.axes(self.arguments[key], self.forms[0]) != (axis,):
            wanted = "none that has channels" if axis is None else axis + 1
            raise self.refused(
                f"{key} = {self.arguments[key]}, expected channels: {key} = {wanted}"
            )

    def pair(self, key: str, default: Pair | None = None) -> Pair:
        """An argument of one or two whole numbers as (lines, pixels); empty is the default."""
        value = self.arguments[key]
        sides = tuple(value) if isinstance(value, list | tuple) else (value, value)
        if not sides and default is not None:
            return default
        if len(sides) == 1:
            sides *= 2
        if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
            raise self.refused(f"{key} = {value!r}, expected one whole number or two")
        return sides[0], sides[1]

    def expect(self, **settings: object) -> None:
        """Raise NetworkError for an argument that is not the one expected."""
        for key, value in settings.items():
            given = self.arguments[key]
            if given not in (value, [value, value]):
                raise self.refused(f"{key} = {given}, only {value!r} is supported")


def number_of(call: Call) -> float:
    """The number that an operation takes beside a layer's output."""
    number = call.arguments["other"]
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise call.refused(f"{number!r} beside a layer's output, expected a finite number")
    return float(number)


ANY: Final = ("map", "mean", "flat", "vector", "map last", "mean last")
"""Forms of a value: a map (C,H,W); a mean of maps (C,1,1), which is a vector for a network; a map
that PyTorch has flattened; a vector (units,); a map (H,W,C) and a mean (1,1,C), channels last."""

CHANNEL_AXES: Final = {"map": 0, "mean": 0, "vector": 0, "map last": 2, "mean last": 2}
"""Form -> which axis of an image has the channels, for those in which they have one."""


@final
@dataclass(frozen=True, slots=True)
class Reader:
    """How an operation becomes a layer: from what, in which form, and with which parameters.

    `layer` returns None for an operation that changes nothing. `takes` are the forms that its
    values may have, all of them the same unless it is `mixed`. `tensors` are arguments that are
    parameters, with their roles; if it is `mixed`, they may be values of layers instead.
    """

    layer: Callable[[Call], Layer | None]
    takes: tuple[str, ...] = ("map",)
    tensors: Mapping[str, Role] = field(default_factory=dict)
    mixed: bool = False


Readers: TypeAlias = Mapping[str, Reader]
"""ATen's operator -> its reader; that of `relu_` is that of `relu`."""

WEIGHTED: Final[Mapping[str, Role]] = {"weight": "weights", "bias": "bias"}
"""ATen's arguments of a convolution or dense layer that are its parameters."""

WholeModules: TypeAlias = Mapping[str, Callable[[str, tuple[str, ...], Any], Layer]]
"""Class of a module whose operations together are one layer -> the layer, from its name, its inputs
and the module."""
