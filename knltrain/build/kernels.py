"""Compiles what a worker's steps need before it takes them, on all of its cores.

A process of its own finds out which kernels these are, by a step without them, and makes those that
are not kept yet in forks of itself: a worker may have threads and MPI, which no fork survives. That
all are there is written down, so that the next worker of the kind does not ask again.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from knltrain.build.names import build_backend, build_network, build_optimizer
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS

if TYPE_CHECKING:
    from vectorized_ops.numba.compiling.all_cores import Progress

MOST_PROCESSES: Final = 32
"""More would wait for the longest kernel, with a hundred megabytes of memory each."""

_COMPLETE: Final = "complete"
_MAIN: Final = "from knltrain.build.kernels import main; main()"


def compile_kernels(config: RunConfig, images: int, threads: int) -> Iterator[Progress]:
    """Compile and keep the kernels of steps of so many images and threads; tell of each.

    There are none where they are known to be there, where nothing can be kept, and for backends
    that have no kernels. What cannot be foreseen is compiled when it is called, as without this.
    """
    if config.backend.name != "cpu" or config.backend.implementation != "numba":
        return
    from vectorized_ops.numba.compiler import cache_has_locks, cache_is_writable, cache_refusal
    from vectorized_ops.numba.compiling.all_cores import Progress
    from vectorized_ops.numba.journal import JOURNAL, MadeKernel

    mark = _mark(config, images, threads)
    if mark.exists() or not cache_is_writable() or cache_refusal() or not cache_has_locks():
        return
    request = {"config": config.model_dump(mode="json"), "images": images, "threads": threads}
    with _helper(request) as helper:
        assert helper.stdout is not None
        try:
            for line in helper.stdout:
                found = json.loads(line)
                progress = Progress(MadeKernel(**found.pop("made")), **found)
                JOURNAL.made.append(progress.made)
                yield progress
        except BaseException:
            helper.kill()
            raise
    if helper.returncode == 0:
        with suppress(OSError):
            mark.parent.mkdir(exist_ok=True)
            mark.touch()


def _mark(config: RunConfig, images: int, threads: int) -> Path:
    """The file that tells that all kernels for such steps are there."""
    import vectorized_ops.numba
    from vectorized_ops.numba.compiler import CACHE_FOLDER, target_name

    tables = config.network, config.backend, config.optimizer
    by_layer = METHODS[config.exchange.method].along_trees
    sources = sorted(Path(*vectorized_ops.numba.__path__).rglob("*.py"))
    states = [(found.st_size, found.st_mtime_ns) for found in map(os.stat, sources)]
    made_from = repr((tables, by_layer, images, threads, target_name(), states))
    return CACHE_FOLDER / _COMPLETE / hashlib.sha256(made_from.encode()).hexdigest()[:32]


def _helper(request: dict[str, object]) -> subprocess.Popen[str]:
    """The process that compiles: it says each kernel in a line."""
    helper = subprocess.Popen(
        [sys.executable, "-c", _MAIN, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert helper.stdin is not None
    with suppress(BrokenPipeError), helper.stdin as pipe:
        json.dump(request, pipe)
    return helper


def main() -> None:
    """Compile what is asked for on standard input, and say each kernel in a line."""
    from vectorized_ops.numba.compiling.all_cores import die_with_parent

    die_with_parent(int(sys.argv[1]))
    request = json.load(sys.stdin)
    config = RunConfig.model_validate(request["config"])
    for progress in compile_for(config, int(request["images"]), int(request["threads"])):
        print(json.dumps(asdict(progress)), flush=True)


def compile_for(config: RunConfig, images: int, threads: int) -> Iterator[Progress]:
    """Compile the kernels of a step by forks of this process, which can do nothing else then."""
    from vectorized_ops.numba.compiling.all_cores import compile_missing
    from vectorized_ops.numba.compiling.recording import recording

    with recording() as recorder:
        try:
            _step(config, images, threads)
        except Exception as error:  # noqa: BLE001  (what is not foreseen is compiled later)
            print(f"some kernels are compiled when they are called: {error}", file=sys.stderr)
    yield from compile_missing(recorder.wanted, min(threads, MOST_PROCESSES))


def _step(config: RunConfig, images: int, threads: int) -> None:
    """Compute a gradient, step, and evaluate."""
    from knltrain.data.dataset import Batch
    from knltrain.network.parameters import aligned_zeros

    network = build_network(config)
    batch = Batch.allocate(images, network.input_shape)
    parameters, gradient = (aligned_zeros(network.packed_size) for _ in range(2))
    optimizer = build_optimizer(config, network)
    backend = build_backend(config, network, images, threads)
    backend.evaluate(batch, parameters)
    backend.loss_and_gradient(batch, parameters, gradient)
    optimizer.step(parameters, gradient, 0.0)
