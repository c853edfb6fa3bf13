"""What a direction of a layer costs: operations, bytes of memory, bytes to other ranks.

Operations and bytes are those of the definition, whatever algorithm computes it: direct
convolution, each tensor read or written once, float32. They make the two intensities of H. Kim's
thesis: operations per byte of memory, operations per byte of communication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vectorized_ops.shapes import ConvolutionShape, PoolingShape

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """One call: `wire_bytes` are what a rank sends at least, in `wire_steps` messages in a row."""

    flops: int
    memory_bytes: int
    wire_bytes: float = 0.0
    wire_steps: int = 0


def convolution(shape: ConvolutionShape) -> Cost:
    """Any direction: 2 N K C/G R S H' W' operations; images, weights and outputs once."""
    moved = sum(map(math.prod, (shape.inputs, shape.weights, shape.outputs)))
    return Cost(shape.flops, FLOAT_BYTES * moved)


def dense(images: int, inputs: int, outputs: int) -> Cost:
    """Any direction: 2 N I O operations; inputs, weights and outputs once."""
    moved = images * inputs + inputs * outputs + images * outputs
    return Cost(2 * images * inputs * outputs, FLOAT_BYTES * moved)


def relu(values: int, backward: bool) -> Cost:
    """An operation per value; a read and a write, backward a read more."""
    return Cost(values, FLOAT_BYTES * (3 if backward else 2) * values)


def max_pooling(images: int, channels: int, shape: PoolingShape, backward: bool) -> Cost:
    """A comparison per pixel of each window; images and outputs once, and a byte for each place."""
    outputs = images * channels * shape.lines * shape.pixels
    inputs = images * channels * shape.height * shape.width
    flops = outputs if backward else outputs * math.prod(shape.kernel)
    return Cost(flops, FLOAT_BYTES * (inputs + outputs) + outputs)


def batch_normalisation(values: int, backward: bool) -> Cost:
    """About 5 operations per value and 3 passes; backward 8 and 5."""
    per_value, passes = (8, 5) if backward else (5, 3)
    return Cost(per_value * values, FLOAT_BYTES * passes * values)


def moved(values: int) -> Cost:
    """A copy into another order."""
    return Cost(0, 2 * FLOAT_BYTES * values)


def softmax_cross_entropy(values: int) -> Cost:
    """About 5 operations per value (largest, exponential, sum, quotient); a read and a write."""
    return Cost(5 * values, 2 * FLOAT_BYTES * values)


def sgd_step(values: int) -> Cost:
    """With momentum: 4 operations, 3 reads and 2 writes per value."""
    return Cost(4 * values, 5 * FLOAT_BYTES * values)


def ring_bytes(bytes_: int, ranks: int) -> float:
    """What a rank sends in an all-reduce by a ring: 2 (P - 1) / P; no way to do it sends less."""
    return 2 * bytes_ * (ranks - 1) / ranks


def ring_steps(ranks: int) -> int:
    """Messages of a ring that follow each other."""
    return 2 * (ranks - 1)


def tree_bytes(bytes_: int) -> int:
    """What crosses an edge of a tree: its sum up, its result down."""
    return 2 * bytes_


def master_bytes(bytes_: int, ranks: int) -> int:
    """What the master sends, or receives, where all others come to it."""
    return bytes_ * ranks
