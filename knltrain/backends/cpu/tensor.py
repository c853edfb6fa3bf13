"""Tensors between the stages of a plan: values forward, gradients backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from knltrain.backends.cpu.memory import Place
from knltrain.network.layers import Shape


@final
class Tensor:
    """The output of a stage, or the images; `gradient` is None where it is not needed.

    - `rectified` values come out of a ReLU: where they are 0 the gradient must become 0. If
      `masked`, the last stage that adds to the gradient applies that mask; otherwise the stage that
      made the values does. A part of a concatenation to whose gradient no stage adds by itself is
      masked with the whole.
    - `fixed` values must not be overwritten: the stage that made them reads them again.
    - `parent` is the concatenation whose memory a tensor is a part of.
    """

    def __init__(self, name: str, shape: Shape, values: Place, gradient: Place | None) -> None:
        self.name, self.shape = name, shape
        self.values, self.gradient = values, gradient
        self.rectified = self.fixed = False
        self.parent: Tensor | None = None
        self._masked: bool | None = None

    @property
    def masked(self) -> bool:
        """Whether the gradient arrives already masked: with zeros where values were cut off."""
        if self._masked is None:
            return self.parent is not None and self.parent.masked
        return self._masked

    @property
    def wholes(self) -> Iterator[Tensor]:
        """The tensor itself, and the concatenations that it is a part of."""
        tensor: Tensor | None = self
        while tensor is not None:
            yield tensor
            tensor = tensor.parent

    def mark_masked(self, masked: bool = True) -> None:
        """Note whether the last stage that adds to the gradient applies the mask."""
        self._masked = masked


@final
class Flow:
    """One stage's share in the gradient of its input `tensor`; `wire` decides how it is written.

    `can_mask` tells whether the operation applies a mask, `shares` whether the share is the
    gradient of the output as it is, whose memory it may have.
    """

    def __init__(self, tensor: Tensor, can_mask: bool = True, shares: bool = False) -> None:
        self.tensor, self.can_mask, self.shares = tensor, can_mask, shares
        self.add = self.mask = False

    @property
    def is_needed(self) -> bool:
        """Whether the gradient of the tensor is needed."""
        return self.tensor.gradient is not None

    @property
    def out(self) -> Any:
        """The array of the gradient."""
        assert self.tensor.gradient is not None
        return self.tensor.gradient.array

    @property
    def manner(self) -> dict[str, Any]:
        """The arguments `add` and `mask` of the operation."""
        return {"add": self.add, "mask": self.tensor.values.array if self.mask else None}
