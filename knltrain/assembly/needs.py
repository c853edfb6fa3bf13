"""Estimates the memory of every worker before any of them is started.

SC17 (You, Buluç, Demmel) asks this of a Xeon Phi: do P copies of weights and data fit its MCDRAM?
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from affinity import Need
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

    - The model counts its vectors, those of the optimizer and of exchanges, and every layer's
      output with its gradient, of `value_bytes` a value, for `images_per_worker` images or, unless
      it is 0, a `micro_batch` of them. The kernels' scratch memory is not counted.
    - The data are there once for all workers: each has its part of them. What is made ahead,
      `batches_ahead_bytes`, lies near the worker that takes it. Of several `nodes` each has a part
      of the data.
    - The program's memory is touched when the model's is, and so lies with it.
    """
    from vectorized_ops.layout import padded_images

    elements = sum(math.prod(shape) for shape in network.shapes)
    at_a_time = min(micro_batch or images_per_worker, images_per_worker)
    vectors = VECTORS + MOMENTS.get(optimizer, 0) + exchange_vectors
    vectors += (at_a_time < images_per_worker) + (iter_size > 1)
    values = 2 * elements * padded_images(at_a_time)
    model = FLOAT_BYTES * vectors * network.packed_size + value_bytes * values
    ahead = [Need("batches", batches_ahead_bytes, "best")] if batches_ahead_bytes else []
    return (
        Need("model", model, "best"),
        Need("data", -(-_data_bytes(dataset, nodes) // workers), "dram"),
        *ahead,
        Need("program", PROGRAM_BYTES, "best"),
    )


def _data_bytes(dataset: Dataset, nodes: int) -> int:
    sources = (dataset.train.source, dataset.test.source)
    if nodes > 1:
        from knltrain.input.distributed.parts import part_bytes

        return sum(part_bytes(source, nodes) + source.labels.nbytes for source in sources)
    return sum(source.held_bytes + source.labels.nbytes for source in sources)
