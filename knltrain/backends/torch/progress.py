"""How far a backward pass has come: the gradient's parts that are done, while the rest is not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import torch

from knltrain.backends.backend import Ready, nobody_waits
from knltrain.backends.torch.streams import recorded
from knltrain.network.layers import ParameterSpec

LEAST_FLOATS: Final = 2**18
"""Smaller parts of a gradient that a device has computed are told of together with others."""


_HAS_EXTERNAL_EVENTS: Final = "external" in inspect.signature(torch.cuda.Event.__new__).parameters
"""Without them, as in some PyTorch before 2.9, a graph tells of no part before its end."""


@final
class BackwardProgress:
    """Tells from which offset on a packed gradient is done, as autograd tells of its parameters.

    `specs` are those of the whole vector. Autograd may come to parameters in another order than
    that of their places, and to some of them never: the rest is told of with the end of the pass.
    """

    def __init__(self, specs: Sequence[ParameterSpec]) -> None:
        ordered = sorted(specs, key=lambda spec: spec.offset)
        self._offsets = [spec.offset for spec in ordered]
        self._awaited = [not (spec.is_statistic or spec.is_frozen) for spec in ordered]
        self._places = {spec.name: place for place, spec in enumerate(ordered)}
        self._is_done = [False] * len(ordered)
        self._first = len(ordered)
        self._told: Ready = nobody_waits

    def begin(self, told: Ready) -> None:
        """Begin a pass, in which `told` is called with falling offsets."""
        self._is_done = [not awaited for awaited in self._awaited]
        self._first, self._told = len(self._offsets), told

    def hook(self, name: str) -> Callable[[torch.Tensor], None]:
        """What autograd calls when the gradient of this parameter is done."""
        place = self._places[name]

        def done(_parameter: torch.Tensor) -> None:
            self._is_done[place] = True
            before = self._first
            while self._first and self._is_done[self._first - 1]:
                self._first -= 1
            if self._first < before:
                self._told(self._offsets[self._first])

        return done


class Mark(NamedTuple):
    """An offset from which on a gradient is done on a device, once its event has come."""

    offset: int
    event: Any


Marks: TypeAlias = list[Mark]


@final
class Marking:
    """Notes in a device's stream from which offset on a gradient (size,) is done: a `Ready`.

    In a graph events are external: each replay records them anew.
    """

    def __init__(self, device: torch.device, size: int, in_graph: bool = False) -> None:
        self.marks: Marks = []
        self._device, self._last, self._in_graph = device, size, in_graph
        self._can_mark = not in_graph or device.type == "cpu" or _HAS_EXTERNAL_EVENTS

    def __call__(self, offset: int) -> None:
        """Note it, unless little was done since the last mark."""
        if self._last - offset < LEAST_FLOATS or not self._can_mark:
            return
        self._last = offset
        external = {"external": True} if self._in_graph else {}
        self.marks.append(Mark(offset, recorded(self._device, **external)))
