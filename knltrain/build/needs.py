"""How much memory every worker will need, estimated before any of them is started.

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
VECTORS = 4
"""Packed vectors of each worker: its local, gradient, velocity, and at most one center's worth."""

PROGRAM_BYTES = 320 * 2**20
"""Interpreter, libraries, kernels; 295 MiB measured while LeNet's kernels were compiled."""


def memory_needs(network: Network, dataset: Dataset, images_per_worker: int) -> tuple[Need, ...]:
    """What each worker needs for its model, its data (every worker holds all) and the program.

    The model counts its vectors, and every layer's output with its gradient, for
    `images_per_worker` images; kernels' own scratch memory is not in it.
    """
    elements = sum(math.prod(shape) for shape in network.shapes)
    model = FLOAT_BYTES * (VECTORS * network.packed_size + 2 * elements * images_per_worker)
    splits = (dataset.train, dataset.test)
    data = sum(images.images_nhwc.nbytes + images.labels.nbytes for images in splits)
    return (
        Need("model", model, "best"),
        Need("data", data, "dram"),
        Need("program", PROGRAM_BYTES, "dram"),
    )
