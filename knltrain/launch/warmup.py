"""Compiles the kernels of a run in advance, so that its workers only load them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from knltrain.assembly import (
    build_dataset,
    build_method,
    build_network,
    written_for_the_wire,
)
from knltrain.assembly.kernels import compile_kernels, take_step
from knltrain.communication.internode.collective import OneNode
from knltrain.config import RunConfig
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.errors import FAILURE, KernelCacheError
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.joining import join, join_across_nodes
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.request_board import RequestBoard
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.team_factory import TeamFactory
from knltrain.exchange.transports.tree_team import TreeTeam
from knltrain.launch.node_share import NodeShare
from knltrain.launch.plan import plan_run, threads_of
from knltrain.vectors import aligned_zeros
from knltrain.worker import RunProgress, Termination
from knltrain.worker.requests import BoardRequests
from vectorized_ops.numba.compiling.all_cores import Progress
from vectorized_ops.numba.compiling.autotuning import TUNING
from vectorized_ops.numba.compiling.compiler import CACHE_FOLDER, cache_is_writable, cache_refusal
from vectorized_ops.numba.compiling.journal import JOURNAL, MadeKernel, told

_EXCHANGED_VALUES: Final = 4096


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
    if not cache_is_writable():
        raise KernelCacheError(
            f"{CACHE_FOLDER} cannot be written, so that no kernel would be kept: set "
            "NUMBA_CACHE_DIR to a folder that can be"
        )
    plan = plan_run(config, NodeShare(nodes=config.total_nodes))
    begun, before = time.perf_counter(), len(JOURNAL.made)
    for threads in sorted({threads_of(plan.config, place) for place in plan.placements}):
        images = plan.config.train.batch // plan.config.total_workers
        for progress in compile_kernels(plan.config, images, threads):
            tell(progress)
        _take_step(plan.config, threads)
    exchange_once(plan.config)
    seconds = time.perf_counter() - begun
    return WarmUp(tuple(JOURNAL.made[before:]), CACHE_FOLDER, seconds, TUNING.told())


def _take_step(config: RunConfig, threads: int) -> None:
    """Let rank 0 compute a gradient, step, and evaluate."""
    network, workers = build_network(config), config.total_workers
    batches = ShardedBatches(
        build_dataset(config).train, config.train.batch, 0, workers, config.seed
    )
    batch = Batch.allocate(batches.images_per_worker, network.input_shape)
    batches.fill(0, batch)
    take_step(config, network, batch, threads)


def exchange_once(config: RunConfig) -> None:
    """Let all workers of the run on a node, as threads, exchange once."""
    workers, nodes, ends = int(config.workers), config.total_nodes, config.exchange.termination
    method = build_method(config, config.total_workers)
    _look_for_requests(method, config.exchange.timeout_seconds)
    if config.total_workers == 1 or method.strategy.is_one_mpi_job:
        _meet(_joined(method, _OneWorker(method)), method, ends)
        return
    memory = NodeMemory(_EXCHANGED_VALUES, workers, method, nodes=nodes)

    def meet(rank: int) -> None:
        fds = [os.dup(fd) for fd in memory.fds_of(rank)]
        try:
            team = _joined(method, _ThreadOfNode(config, fds, rank))
            _meet(team, method, ends)
        except BaseException:
            memory.abort(FAILURE)  # the others must not wait
            raise

    try:
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(meet, range(workers)))
    finally:
        memory.close()
    if nodes > 1 and method.comes_alone:
        _contribute(method)


@final
@dataclass(frozen=True, slots=True)
class _OneWorker(TeamFactory):
    """A worker alone, or rank 0 along trees, which steps alone for any number of workers."""

    method: Method

    def meeting_all(self) -> Team:
        """In memory of its own."""
        spares = self.method.strategy.needs_spares
        return Loopback(_EXCHANGED_VALUES, self.method.rule.center_vectors, spares)

    def visiting(self) -> Team:
        """In memory of its own."""
        return self.meeting_all()

    def along_trees(self) -> Team:
        """In memory of its own."""
        return TreeTeam.of_one()


@final
@dataclass(frozen=True, slots=True)
class _ThreadOfNode(TeamFactory):
    """A thread in place of a worker, as if its node were the only one."""

    config: RunConfig
    fds: Sequence[int]
    rank: int

    def meeting_all(self) -> Team:
        """With the node's part of exchanges between nodes, where there are several."""
        nodes, limit_seconds = self.config.total_nodes, self.config.exchange.timeout_seconds
        if nodes == 1:
            return self.visiting()
        one = OneNode()
        collective = (
            None if self.rank else written_for_the_wire(self.config, one, _EXCHANGED_VALUES)
        )
        return join_across_nodes(self.fds, self.rank, limit_seconds, 0, nodes, collective)

    def visiting(self) -> Team:
        """With a center in the node's memory."""
        return join(self.fds, self.rank, self.config.exchange.timeout_seconds)

    def along_trees(self) -> Team:
        """Alone."""
        return TreeTeam.of_one()


def _joined(method: Method, teams: TeamFactory) -> Team:
    return method.strategy.join(teams, comes_alone=method.comes_alone)


def _look_for_requests(method: Method, limit_seconds: float) -> None:
    """Look for requests, as each worker does between two steps."""
    requests = BoardRequests(RequestBoard.create(1), 0, Loopback(1), method, limit_seconds)
    requests.look(0)
    requests.close()


def _contribute(method: Method) -> None:
    """Contribute as a worker whose center lies on another node, which takes more than one pass."""
    local, center, contribution = (aligned_zeros(_EXCHANGED_VALUES) for _ in range(3))
    method.rule.contribute(local, center, contribution)


def _meet(team: Team, method: Method, termination: Termination) -> None:
    part = strategy_in(method, team)
    try:
        team.barrier()
        RunProgress(termination, 0, team).look(0)
        if method.period is not None:
            part.begin()
            part.exchange(0)
            part.settle()
            part.team.barrier()
    finally:
        part.close()
