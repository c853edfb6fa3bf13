"""What backends are tried with: no bias is zero, no statistic that of a batch."""

from __future__ import annotations

import numpy as np

from knltrain.backends.cpu import CpuBackend
from knltrain.backends.loss import PLAIN, Loss
from knltrain.data.dataset import Batch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


def batch_of(network: Network, images: int, seed: int = 0) -> Batch:
    """Normal images, labels of all classes, and a key for dropout."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((images, *network.input_shape), np.float32)
    labels = rng.integers(0, network.output_shape[0], images)
    return Batch(values, labels, np.array([seed + 77], np.uint64))


def parameters_of(network: Network, seed: int = 1) -> ParameterVector:
    """Initial weights; biases and shifts of either sign; scales and variances around 1."""
    vector, rng = ParameterVector(network), np.random.default_rng(seed)
    vector.initialise(seed)
    for spec in network.parameters:
        if spec.role != "weights":
            around = 1.0 if spec.role in ("scale", "running_variance") else 0.0
            vector.views[spec.name][...] = around + rng.uniform(-0.5, 0.5, spec.shape)
    return vector


def direct(
    network: Network,
    images: int,
    implementation: str,
    threads: int = 1,
    micro_batch: int = 0,
    loss: Loss = PLAIN,
) -> CpuBackend:
    """A cpu backend that sums directly.

    Measuring which algorithm is fastest would compile all of them; slow tests do that.
    """
    return CpuBackend(network, images, threads, implementation, False, micro_batch, loss)
