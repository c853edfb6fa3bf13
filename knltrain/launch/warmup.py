"""Compiles the kernels of a run in advance, so that its workers only load them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from knltrain.assembly import (
    build_dataset,
    build_network,
)
from knltrain.assembly.kernels import compile_kernels, take_step
from knltrain.assembly.rehearsal import exchange_once
from knltrain.config import RunConfig
from knltrain.data.dataset import Batch, Dataset
from knltrain.data.order import ShardedBatches
from knltrain.errors import KernelCacheError
from knltrain.launch.node_share import NodeShare
from knltrain.launch.plan import plan_run, threads_of
from vectorized_ops.numba.compiling.compiler import (
    CACHE_FOLDER,
    cache_is_writable,
    cache_refusal,
    kernels_not_kept,
)
from vectorized_ops.numba.compiling.journal import JOURNAL, TUNING, MadeKernel, Progress, told


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The kernels of a run, compiled now or found in `folder`, and the time that took."""

    made: tuple[MadeKernel, ...]
    folder: Path
    seconds: float
    tuning: str

    def lines(self) -> Iterator[str]:
        """The report for the user."""
        yield self.tuning
        yield f"{told(self.made)}; {self.seconds:.1f} s in all; kernel cache {self.folder}"

    def explained(self) -> Iterator[str]:
        """Compiled kernels by name: how many of each, and their seconds, longest first."""
        seconds: dict[str, list[float]] = {}
        for one in self.made:
            if one.compiled:
                seconds.setdefault(one.name, []).append(one.seconds)
        yield "compiled  seconds  longest  kernel"
        for name, each in sorted(seconds.items(), key=lambda named: -sum(named[1])):
            yield f"{len(each):8}  {sum(each):7.2f}  {max(each):7.2f}  {name}"


def warm_up(config: RunConfig, tell: Callable[[Progress], None] = lambda _: None) -> WarmUp:
    """Compile every kernel of a run for this processor; `tell` reports progress.

    First compiles the kernels of a step on all cores of a worker. Then does what each worker does
    in its first step and evaluation, with as many images and threads, and an exchange between
    threads in place of workers. Raises what `plan_run` raises, and KernelCacheError where kernels
    cannot be kept.
    """
    if (refusal := cache_refusal()) is not None:
        raise KernelCacheError(f"no kernel would be kept: {refusal}")
    is_writable = cache_is_writable()
    plan = plan_run(config, NodeShare(nodes=config.total_nodes))
    begun, before = time.perf_counter(), len(JOURNAL.made)
    dataset = build_dataset(plan.config)
    images, copies = max(plan.config.images_of_each), dataset.train.are_copies
    for config in _with_each_backend(plan.config):
        for threads in sorted({threads_of(config, place) for place in plan.placements}):
            for progress in compile_kernels(config, images, threads, copies):
                if not is_writable:  # one that has all kernels need not be
                    raise KernelCacheError(
                        f"{CACHE_FOLDER} cannot be written and lacks kernels, of which none would "
                        "be kept: set NUMBA_CACHE_DIR to a folder that can be"
                    )
                tell(progress)
            _take_step(config, dataset, threads)
    exchange_once(plan.config)
    if lost := kernels_not_kept():
        name, error = lost[0]
        raise KernelCacheError(
            f"{len(lost)} kernels could not be kept, such as {name} ({error}): expected a folder "
            f"with room for all; make some in {CACHE_FOLDER}, or set NUMBA_CACHE_DIR to another"
        )
    seconds = time.perf_counter() - begun
    return WarmUp(tuple(JOURNAL.made[before:]), CACHE_FOLDER, seconds, TUNING.told())


def _with_each_backend(config: RunConfig) -> list[RunConfig]:
    """The run with each backend of its workers that computes on the host."""
    found = [config.backend.of(some) for some in (None, *config.backend.workers)]
    here = dict.fromkeys(one for one in found if one.device == "cpu")
    return [config.model_copy(update={"backend": one}) for one in here]


def _take_step(config: RunConfig, dataset: Dataset, threads: int) -> None:
    """Let rank 0 compute a gradient, step, and evaluate."""
    network, workers = build_network(config), config.total_workers
    shares = sorted(config.images_of_each, reverse=True)
    batches = ShardedBatches(
        dataset.train, config.train.batch, 0, workers, config.seed, shares=shares
    )
    batch = Batch.allocate(batches.images_per_worker, network.input_shape, batches.label_shape)
    batches.fill(0, batch)
    take_step(config, network, batch, threads)
