"""An exchange of a run, so that its kernels are known before its workers need them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, final

from knltrain.assembly.names import (
    build_center_formats,
    build_method,
    written_for_the_wire,
)
from knltrain.communication.internode.collective import OneNode
from knltrain.communication.internode.wire.wire_format import row_for
from knltrain.config import RunConfig
from knltrain.errors import FAILURE
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.board import RequestBoard
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.transports.joining import join, join_across_nodes
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.team import Team, TeamFactory
from knltrain.vectors import aligned_zeros
from knltrain.worker.requests import BoardRequests
from knltrain.worker.termination import RunProgress, Termination

_EXCHANGED_VALUES: Final = 4096


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
        _write_for_the_wire(config)


@final
@dataclass(frozen=True, slots=True)
class _OneWorker(TeamFactory):
    """A worker alone, or rank 0 of one job, which takes its step alone, however many they are."""

    method: Method

    def meeting_all(self) -> Team:
        """In memory of its own."""
        spares = self.method.strategy.needs_spares
        return Loopback(_EXCHANGED_VALUES, self.method.rule.center_vectors, spares)

    def visiting(self) -> Team:
        """In memory of its own."""
        return self.meeting_all()

    def in_one_job(self) -> Team:
        """In memory of its own."""
        return JobTeam.of_one()


@final
@dataclass(frozen=True, slots=True)
class _ThreadOfNode(TeamFactory):
    """A thread in place of a worker, as if its node were all."""

    config: RunConfig
    fds: Sequence[int]
    rank: int

    def meeting_all(self) -> Team:
        """With what a node does for others, where there are several."""
        nodes, limit_seconds = self.config.total_nodes, self.config.exchange.timeout_seconds
        if nodes == 1:
            return self.visiting()
        one = OneNode()
        collective = (
            None if self.rank else written_for_the_wire(self.config, one, _EXCHANGED_VALUES)
        )
        return join_across_nodes(self.fds, self.rank, limit_seconds, 0, nodes, collective)

    def visiting(self) -> Team:
        """At a center of the node."""
        return join(self.fds, self.rank, self.config.exchange.timeout_seconds)

    def in_one_job(self) -> Team:
        """Alone."""
        return JobTeam.of_one()


def _joined(method: Method, teams: TeamFactory) -> Team:
    return method.strategy.join(teams, comes_alone=method.comes_alone)


def _look_for_requests(method: Method, limit_seconds: float) -> None:
    """As each worker between two steps."""
    requests = BoardRequests(RequestBoard.create(1), 0, Loopback(1), method, limit_seconds)
    requests.look(0)
    requests.close()


def _contribute(method: Method) -> None:
    """As who comes alone to a center that lies elsewhere, and cannot visit it in one pass."""
    local, center, contribution = (aligned_zeros(_EXCHANGED_VALUES) for _ in range(3))
    method.rule.contribute(local, center, contribution)


def _write_for_the_wire(config: RunConfig) -> None:
    """As who comes alone, and as who has a share of the center."""
    formats = build_center_formats(config, _EXCHANGED_VALUES)
    if formats is None:
        return
    values, residual = (aligned_zeros(_EXCHANGED_VALUES) for _ in range(2))
    for each in (formats.added, formats.read):
        row = row_for(each.bytes_for(values.size))
        each.encode(values, residual if each.keeps_residual else residual[:0], row)
        each.decode_add(row, values)


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
