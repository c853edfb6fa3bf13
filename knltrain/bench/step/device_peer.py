"""The torch backend on a device as a contestant.

    python -m knltrain.bench.step.device_peer JOB THREADS ENGINE DEVICE PRECISION

As in a run, parameters, gradient and the optimizer's state stay on the device; the batch is copied
there, and the loss comes back, in each step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import numpy as np
import torch

from knltrain import __version__
from knltrain.assembly.factories import ENGINES
from knltrain.backends.torch.backend import TorchBackend
from knltrain.backends.torch.device_optimizer import DeviceKernels, DeviceOptimizer
from knltrain.backends.torch.devices import device_named
from knltrain.backends.torch.graphs import cuda_graphs
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.backends.torch.switches import Precision
from knltrain.bench.step import protocol
from knltrain.bench.step.torch_peer import forget_peak, peak
from knltrain.data.dataset import Batch
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named
from knltrain.optimizers.sgd import SGD
from vectorized_ops.parameter_groups import Clipping


def main(job: Path, threads: int, engine: str, device: str, precision: Precision) -> None:
    """Train on the job's batch; a step is replayed as a graph where the device has graphs."""
    description = json.loads((job / "job.json").read_text(encoding="utf-8"))
    arrays = np.load(job / "arrays.npz")
    network = network_named(description["network"])
    mirrors = Mirrors(device_named(device))
    if mirrors.device.type != "cpu":
        torch.accelerator.set_device_index(mirrors.device.index or 0)
    parameters, gradient = ParameterVector(network), ParameterVector(network)
    for name, view in parameters.views.items():
        view[...] = arrays[name]
    batch = Batch(arrays["images_nhwc"], arrays["labels"])
    graph = cuda_graphs(mirrors.device, "auto")
    backend = TorchBackend(
        network,
        len(batch.labels),
        threads,
        ENGINES[engine](network, mirrors),
        mirrors=mirrors,
        precision=precision,
        graph=graph,
    )
    kernels = DeviceKernels(mirrors, cuda_graphs(mirrors.device, "auto"))
    sgd = SGD(
        network.parameter_groups,
        protocol.MOMENTUM,
        protocol.WEIGHT_DECAY,
        False,
        Clipping(),
        kernels.sgd,
    )
    optimizer = DeviceOptimizer(sgd, kernels)
    mirrors.follow(parameters.packed, gradient.packed)

    def step() -> float:
        loss = backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
        optimizer.step(parameters.packed, gradient.packed, protocol.LEARNING_RATE)
        return loss

    first_loss = step()
    forget_peak(mirrors.device)
    protocol.warm_up(step)
    version = f"knltrain {__version__}"
    ready = {"loss": first_loss, "version": version, **peak(mirrors.device)}
    protocol.serve(ready, lambda seconds: protocol.steps_within(seconds, step))


if __name__ == "__main__":
    folder, count, chosen, place, rounded = sys.argv[1:]
    main(Path(folder), int(count), chosen, place, cast("Precision", rounded))
