"""The operations of a network, each shape once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from knltrain.network.network import Network
from vectorized_ops.shapes import ConvolutionShape, TimedShape


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on one shape; `layers` is the number of layers with that shape."""

    operation: TimedShape
    layers: int = 1

    @property
    def kind(self) -> str:
        """What the field calls the operation."""
        return f"depthwise {self.operation.kind}" if self._depthwise else self.operation.kind

    @property
    def bound_by_products(self) -> bool:
        """Whether a matrix product is its bound; else a copy is, as for depthwise convolutions."""
        return self.operation.is_product and not self._depthwise

    def has_form(self, implementation: str) -> bool:
        """Whether a contestant, which may have convolutions or products alone, has the operation.

        oneDNN's operations are made for float32; its products take bfloat16 too.
        """
        if implementation == "fft":
            return self.operation.kind == ConvolutionShape.kind
        return implementation != "onednn-bfloat16" or self.operation.is_product

    @property
    def _depthwise(self) -> bool:
        shape = self.operation
        return isinstance(shape, ConvolutionShape) and 1 < shape.groups == shape.channels


def cases(network: Network, batch: int) -> list[Case]:
    """Return the operations of a network that can be measured alone, in order of appearance."""
    found = Counter(network.operation(layer, batch) for layer in network.layers)
    return [Case(each, count) for each, count in found.items() if isinstance(each, TimedShape)]
