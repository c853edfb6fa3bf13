"""The parts of the parameters that are exchanged by themselves, or all of them at once."""

from __future__ import annotations

from dataclasses import dataclass

from knltrain.network.layer_slices import layer_parts, layer_sizes
from knltrain.network.network import Network
from vectorized_ops.shapes import FLOAT_BYTES


@dataclass(frozen=True, slots=True)
class ExchangedPart:
    """A part: its layers, its bytes in memory, and what a step computes for it and moves of it.

    - `flops` of training its layers, by the `workers` of a node
    - `wire_bytes` that a node sends over a network: 0 on one node, None where nodes differ
    - `exchanged_bytes` that a worker of one node moves over the segment, the mean over workers;
      None on several nodes
    """

    layers: tuple[str, ...]
    packed_bytes: int
    wire_bytes: float | None
    exchanged_bytes: float | None
    flops: int
    workers: int

    @property
    def communication_intensity(self) -> float | None:
        """That of H. Kim's thesis: operations of a node by its bytes over the wire.

        On one node those of all workers over the segment; None where these bytes are not known.
        """
        if self.wire_bytes:
            return self.flops / self.wire_bytes
        return self.flops / self.workers / self.exchanged_bytes if self.exchanged_bytes else None


def exchanged_part(
    network: Network,
    part: slice,
    images: int,
    workers: int,
    wire_bytes: float | None,
    exchanged_bytes: float | None,
) -> ExchangedPart:
    """The part of the packed parameters, where each of the `workers` of a node has so many images.

    The bytes are those of a step.
    """
    sizes = layer_sizes(network)
    names = tuple(
        name
        for (name, _), own in zip(sizes, layer_parts(network), strict=True)
        if own.start < part.stop and part.start < own.stop
    )
    flops = sum(
        network.training_flops_of(layer) for layer in network.layers if layer.name in set(names)
    )
    packed = FLOAT_BYTES * (part.stop - part.start)
    found = workers * images * flops
    return ExchangedPart(names, packed, wire_bytes, exchanged_bytes, found, workers)
