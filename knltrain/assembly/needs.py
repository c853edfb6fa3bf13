"""Estimates the memory of every worker before any of them is started.

SC17 (You, Buluç, Demmel) asks this of a Xeon Phi: do P copies of weights and data fit its MCDRAM?
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from affinity import Need
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network

if TYPE_CHECKING:
    from knltrain.data.dataset import Dataset

FLOAT_BYTES = 4
VECTORS = 3
"""Packed vectors of each worker: its local, gradient, and at most one center's worth.

Micro-batches take one more, for the gradient of one, and several batches per step one for their
sum; those of optimizers come on top.
"""

MOMENTS = {
    "sgd": 1,
    "lars": 1,
    "adamw": 2,
    "adam": 2,
    "adagrad": 1,
    "rmsprop": 1,
    "adadelta": 2,
}
"""Packed vectors that an optimizer keeps: a velocity, sums of squares, or two moments."""

_IN_PLACE: Final = ("ReLU", "Dropout", "StochasticDepth", "Flatten")
"""Layers that write over what they take."""

_SCRATCH: Final = 0.1
"""Scratch memory of kernels, as a share of what a step keeps."""

_OF_WEIGHTS: Final = 10
"""As much again for a copy of a convolution's weights: the points of two of F(4x4, 3x3)."""

PROGRAM_BYTES = 320 * 2**20
"""Interpreter, libraries, kernels; 295 MiB measured while LeNet's kernels were compiled."""


def memory_needs(
    network: Network,
    dataset: Dataset,
    images_per_worker: int,
    micro_batch: int = 0,
    optimizer: str = "sgd",
    exchange_vectors: int = 0,
    iter_size: int = 1,
    workers: int = 1,
    batches_ahead_bytes: int = 0,
    nodes: int = 1,
    value_bytes: int = FLOAT_BYTES,
) -> tuple[Need, ...]:
    """Memory that each of a computer's `workers` needs for model, data and the program.

    - The model counts its vectors, those of the optimizer and of exchanges, and `values_at_once`,
      of `value_bytes` each, for `images_per_worker` images or, unless it is 0, a `micro_batch` of
      them; then the kernels' scratch memory, which is guessed.
    - The data are there once for all workers: each has its part of them. What is made ahead,
      `batches_ahead_bytes`, lies near the worker that takes it. Of several `nodes` each has a part
      of the data.
    - The program's memory is touched when the model's is, and so lies with it.
    """
    from vectorized_ops.layout import padded_images

    at_a_time = min(micro_batch or images_per_worker, images_per_worker)
    vectors = VECTORS + MOMENTS.get(optimizer, 0) + exchange_vectors
    vectors += (at_a_time < images_per_worker) + (iter_size > 1)
    values = values_at_once(network) * padded_images(at_a_time)
    model = FLOAT_BYTES * vectors * network.packed_size + value_bytes * values
    scratch = _SCRATCH * value_bytes * values + _OF_WEIGHTS * FLOAT_BYTES * _largest(network)
    ahead = [Need("batches", batches_ahead_bytes, "best")] if batches_ahead_bytes else []
    return (
        Need("model", model + math.ceil(scratch), "best"),
        Need("data", -(-_data_bytes(dataset, nodes) // workers), "dram"),
        *ahead,
        Need("program", PROGRAM_BYTES, "best"),
    )


def values_at_once(network: Network) -> int:
    """Return how many values of an image a step keeps at once: outputs and their gradients.

    An output is kept until its layer's backward pass. Its gradient exists from the backward pass of
    its last taker until then. Parts of a concatenation lie in it. The cpu backend's plan has much
    the same: it fuses some more layers, and what is kept by pieces does not fill all gaps.
    """
    numbers = {layer.name: number for number, layer in enumerate(network.layers)}
    moved: dict[str, str] = {}

    def home(name: str) -> str:
        while name in moved:
            name = moved[name]
        return name

    for layer in network.layers:
        taken = network.inputs_of(layer)
        kind = _kind(layer)
        if kind == "Concatenation":
            parts = {home(name) for name in taken} - {IMAGES, layer.name}
            moved.update(dict.fromkeys(parts, layer.name))
        elif kind == "Addition":
            last = max(taken, key=lambda name: numbers.get(name, -1))
            if _is_fused(network, last):
                moved[last] = layer.name
        elif _overwrites(network, layer) and home(taken[0]) != IMAGES:
            moved[layer.name] = home(taken[0])
    changes = [0] * (len(network.layers) + 1)
    changes[0] += math.prod(network.input_shape)
    for name, (first, last_use) in _lifetimes(network, home).items():
        size = math.prod(network.shape_of(name))
        changes[first] += 2 * size
        changes[last_use + 1] -= size
    return max(accumulate(changes))


def _lifetimes(network: Network, home: Callable[[str], str]) -> dict[str, tuple[int, int]]:
    """The first and the last layer, by number, that write or take what is kept under a name."""
    found: dict[str, tuple[int, int]] = {}
    for number, layer in enumerate(network.layers):
        for name in {home(each) for each in (layer.name, *network.inputs_of(layer))} - {IMAGES}:
            first, _ = found.get(name, (number, number))
            found[name] = first, number
    return found


def _overwrites(network: Network, layer: Layer) -> bool:
    """Whether a layer works in place, as does an activation behind a normalisation."""
    (taken,) = network.inputs_of(layer)[:1]
    is_fused = _kind(layer) == "Activation" and _is_fused(network, taken)
    return _kind(layer) in _IN_PLACE or is_fused


def _is_fused(network: Network, name: str) -> bool:
    """Whether an output is that of a normalisation which one layer alone takes."""
    return len(network.consumers(name)) == 1 and any(
        each.name == name and _kind(each) == "BatchNormalisation" for each in network.layers
    )


def _kind(layer: Layer) -> str:
    """What a layer is, by a name: kinds that a network lacks are not imported."""
    return type(layer).__name__


def _largest(network: Network) -> int:
    """The most weights that a convolution has."""
    kernels = [spec.size for spec in network.parameters if len(spec.shape) == 4]
    return max(kernels, default=0)


def _data_bytes(dataset: Dataset, nodes: int) -> int:
    sources = (dataset.train.source, dataset.test.source)
    if nodes > 1:
        from knltrain.input.distributed.parts import part_bytes

        return sum(part_bytes(source, nodes) + source.labels.nbytes for source in sources)
    return sum(source.held_bytes + source.labels.nbytes for source in sources)
