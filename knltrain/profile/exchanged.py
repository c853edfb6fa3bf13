"""The parts of a gradient that are exchanged by themselves, beside the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from knltrain.network.layer_slices import layer_parts, layer_sizes
from knltrain.network.network import Network
from vectorized_ops.shapes import FLOAT_BYTES


@dataclass(frozen=True, slots=True)
class ExchangedPart:
    """A part: its layers, its size, what a node sends of it, and what computing the layers takes.

    `flops` / `sent_bytes` is the communication intensity of H. Kim's thesis.
    """

    layers: tuple[str, ...]
    packed_bytes: int
    sent_bytes: int
    flops: int


def exchanged_part(
    network: Network, part: slice, images: int, sent_bytes: Callable[[int], int]
) -> ExchangedPart:
    """The part of the packed gradient of so many images; `sent_bytes` takes its elements."""
    sizes = layer_sizes(network)
    names = tuple(
        name
        for (name, _), own in zip(sizes, layer_parts(network), strict=True)
        if own.start < part.stop and part.start < own.stop
    )
    flops = sum(
        network.training_flops_of(layer) for layer in network.layers if layer.name in set(names)
    )
    size = part.stop - part.start
    return ExchangedPart(names, FLOAT_BYTES * size, sent_bytes(size), images * flops)
