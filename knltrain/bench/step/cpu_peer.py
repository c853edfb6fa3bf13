"""The cpu backend as a contestant: `python -m knltrain.bench.step.cpu_peer JOB THREADS PRECISION`.

If kernels had to be compiled, the process starts over and loads them from the cache: the compiler
would otherwise hold hundreds of megabytes that do not belong to a step.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from knltrain import __version__
from knltrain.backends.cpu import CpuBackend
from knltrain.backends.cpu.layout import layout_of
from knltrain.bench.step import protocol
from knltrain.data.dataset import Batch
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named
from knltrain.optimizers.sgd import SGD
from vectorized_ops.implementations import OF_LAYOUTS
from vectorized_ops.numba.compiling.journal import JOURNAL, MadeKernel
from vectorized_ops.numba.sgd import SGDUpdate
from vectorized_ops.parameter_groups import Clipping

AGAIN = "again"


def main(
    job: Path, threads: int, precision: str, when_warm: Callable[[], None] = lambda: None
) -> None:
    """Train on the job's batch, or evaluate it, with Numba's kernels.

    `when_warm` is called before rounds. `precision` is that of activations: "float32", or
    "bfloat16", emulated where need be.
    """
    description = json.loads((job / "job.json").read_text(encoding="utf-8"))
    arrays = np.load(job / "arrays.npz")
    network = network_named(description["network"])
    batch = Batch(arrays["images_nhwc"], arrays["labels"])
    parameters, gradient = ParameterVector(network), ParameterVector(network)
    for name, view in parameters.views.items():
        view[...] = arrays[name]
    images = len(batch.labels)
    layout = layout_of(network, images) if precision == "float32" else "images_last"
    backend = CpuBackend(network, images, threads, OF_LAYOUTS[layout], precision=precision)
    optimizer = SGD(
        network.parameter_groups,
        protocol.MOMENTUM,
        protocol.WEIGHT_DECAY,
        False,
        Clipping(),
        SGDUpdate,
    )

    def step() -> float:
        loss = backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
        optimizer.step(parameters.packed, gradient.packed, protocol.LEARNING_RATE)
        return loss

    def evaluation() -> float:
        return backend.evaluate(batch, parameters.packed)[0] / images

    run = evaluation if description["evaluates"] else step
    first_loss = run()
    protocol.warm_up(run)
    when_warm()
    ready = {"loss": first_loss, "version": f"knltrain {__version__}"}
    protocol.serve(ready, lambda seconds: protocol.steps_within(seconds, run))


def start_over_if_compiled(
    arguments: Sequence[str],
    cpus: Iterable[int],
    made: Iterable[MadeKernel],
    execute: Callable[[str, list[str]], object] = os.execv,
) -> None:
    """Replace this process by a new one with the same `arguments`, once, if it has compiled.

    The new one may use `cpus`, those of this process before it pinned its threads.
    """
    if AGAIN not in arguments and any(kernel.compiled for kernel in made):
        os.sched_setaffinity(0, cpus)
        command = [sys.executable, "-m", "knltrain.bench.step.cpu_peer", *arguments, AGAIN]
        execute(sys.executable, command)


if __name__ == "__main__":
    allowed = os.sched_getaffinity(0)
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        sys.argv[3],
        lambda: start_over_if_compiled(sys.argv[1:], allowed, JOURNAL.made),
    )
