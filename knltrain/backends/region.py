"""A part of a training step that is timed by itself, and what it costs by its definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from vectorized_ops.shapes import ConvolutionShape, Cost, OperationShape

READY: Final = "ready"
BACKWARD: Final = ("backward_data", "backward_weights")


@dataclass(frozen=True, slots=True)
class Region:
    """One direction of a stage, for a whole batch; or what is beside the stages, without layers.

    - `direction`: "forward", "backward_data", "backward_weights", "backward" where both are one
      pass, "mask" (a ReLU's, by itself), "load", "loss", "sum" (of slices' gradients), "ready"
      (what is done with the gradient of a stage as soon as it is there), or "step"
    - `kind`: what the field calls the operation, such as "convolution 3x3"
    - `algorithm`: the one that was chosen, None where there is one alone
    - `does_for`: stages for which it does something, such as the moments of a normalisation
    - `flops`: operations of its `layers` by definition
    - `product_flops`: of these, the products of convolutions and dense layers
    - `executed_flops`: of the algorithm; None where it is not known
    - `compulsory_bytes`: arrays of the fused stage, read or written once each
    - `layout_bytes`: of the algorithm and the layout, with padding; None where it is not known
    - `unfused_bytes`: compulsory bytes of the layers if each were a stage of its own
    """

    name: str
    direction: str
    kind: str
    layers: tuple[str, ...] = ()
    algorithm: str | None = None
    does_for: tuple[str, ...] = ()
    flops: int = 0
    product_flops: int = 0
    executed_flops: int | None = None
    compulsory_bytes: int = 0
    layout_bytes: int | None = None
    unfused_bytes: int = 0

    def times(self, batches: int) -> Region:
        """The region of so many batches."""
        return replace(
            self,
            flops=batches * self.flops,
            product_flops=batches * self.product_flops,
            executed_flops=self.executed_flops and batches * self.executed_flops,
            compulsory_bytes=batches * self.compulsory_bytes,
            layout_bytes=self.layout_bytes and batches * self.layout_bytes,
            unfused_bytes=batches * self.unfused_bytes,
        )


def kind_of(shape: OperationShape) -> str:
    """What the field calls the operation; convolutions with their kernel: "convolution 3x3"."""
    if not isinstance(shape, ConvolutionShape):
        return shape.kind
    kernel = "x".join(map(str, shape.kernel))
    if shape.groups == 1:
        return f"{shape.kind} {kernel}"
    grouped = "depthwise" if shape.groups == shape.channels else "grouped"
    return f"{grouped} {shape.kind} {kernel}"


def sum_of(costs: Iterable[Cost]) -> Cost:
    """All costs, one after the other."""
    return reduce(Cost.__add__, costs, Cost(0, 0))


def cost_of(shape: OperationShape, directions: Iterable[str]) -> Cost:
    """By definition; an operation without a direction costs nothing there."""
    return sum_of(shape.costs[each] for each in directions if each in shape.costs)
