"""What each process of a run is told when it is started: workers, and the data pool."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from affinity import Placement, worker_command
from knltrain.cluster.worker import MeetingPoint, WorkerIdentity
from knltrain.exchange.transports.board import RequestBoard
from knltrain.launch.data_cores import DATA_POOL
from knltrain.launch.plan import RunPlan, threads_of
from knltrain.launch.run_folder import log_of
from knltrain.launch.shared_memory import Shared
from knltrain.launch.signals import ASKING, STOPPING
from knltrain.launch.worker_process import WorkerProcess

if TYPE_CHECKING:
    from knltrain.assembly.initial_parameters import InitialParameters
    from knltrain.cluster.data_pool import DataPoolIdentity


@dataclass(frozen=True, slots=True)
class Orders:
    """What each started process must be told, besides its place."""

    plan: RunPlan
    run_folder: Path
    shared: Shared
    meeting_point: MeetingPoint | None
    resume: bool
    board: RequestBoard
    initial: InitialParameters | None = None

    def fds(self, placement: Placement) -> tuple[int, ...]:
        """The descriptors that a worker inherits."""
        point = self.meeting_point_of(placement)
        points = () if point is None or point.fd is None else (point.fd,)
        initial = () if self.initial is None else self.initial.fds
        return (*self.shared.fds_of(placement.rank), *points, self.board.fd, *initial)

    def meeting_point_of(self, placement: Placement) -> MeetingPoint | None:
        """The worker's rendezvous with other nodes; only rank 0 gets its listening descriptor."""
        point = self.meeting_point
        if point is None or self.plan.rank_of(placement) == 0:
            return point
        return replace(point, fd=None)

    def identity(self, placement: Placement, events_fd: int) -> WorkerIdentity:
        """The worker's identity."""
        memory, ring = self.shared.memory, self.shared.ring
        number, all_here = self.plan.placements.index(placement), len(self.plan.placements)
        return WorkerIdentity(
            rank=self.plan.rank_of(placement),
            workers=self.plan.workers,
            run_folder=self.run_folder,
            events_fd=events_fd,
            segment_fds=() if memory is None else memory.fds_of(placement.rank),
            threads=threads_of(self.plan.config, placement),
            resume=self.resume,
            meeting_point=self.meeting_point_of(placement),
            requests=(self.board.fd, number),
            data_fd=self.shared.data_fd,
            batches=None if ring is None else (ring.fd, number, all_here),
            initial=None if self.initial is None else self.initial.fds,
        )

    def pool_identity(self, events_fd: int) -> DataPoolIdentity:
        """The data pool's identity."""
        from knltrain.cluster.data_pool import DataPoolIdentity

        plan, ring = self.plan, self.shared.ring
        assert ring is not None and plan.pool is not None
        return DataPoolIdentity(
            run_folder=self.run_folder,
            first_rank=plan.rank_of(plan.placements[0]),
            workers=len(plan.placements),
            all_workers=plan.workers,
            threads=plan.pool.threads,
            events_fd=events_fd,
            batches_fd=ring.fd,
            data_fd=self.shared.data_fd,
        )


def start_worker(
    orders: Orders, placement: Placement, kept_fds: Sequence[int] = ()
) -> WorkerProcess:
    """Start the worker of a place, which keeps the descriptors `kept_fds` open."""
    plan = orders.plan
    threads, rank = threads_of(plan.config, placement), plan.rank_of(placement)

    def command(events_fd: int) -> list[str]:
        identity = orders.identity(placement, events_fd)
        return worker_command(
            [sys.executable, "-u", "-X", "faulthandler", "-m", "knltrain.launch.entry"],
            replace(placement, threads=threads),
            identity.to_environment(),
            die_with_parent=os.getpid(),
            pin_threads=plan.config.placement.pin,
        )

    log = log_of(orders.run_folder, rank)
    # A scheduler may send them to all processes of a job: what they ask for is for their parent.
    unheard = (*STOPPING, *ASKING)
    return WorkerProcess(rank, command, log, (*orders.fds(placement), *kept_fds), unheard)


def start_pool(orders: Orders, place: Placement, kept_fds: Sequence[int] = ()) -> WorkerProcess:
    """Start the data pool at its place."""

    def command(events_fd: int) -> list[str]:
        return worker_command(
            [sys.executable, "-u", "-X", "faulthandler", "-m", "knltrain.launch.data_pool"],
            replace(place, threads=1),  # of libraries: the pool has threads of its own
            orders.pool_identity(events_fd).to_environment(),
            die_with_parent=os.getpid(),
        )

    shared = orders.shared
    assert shared.ring is not None
    fds = (shared.ring.fd,) if shared.data_fd is None else (shared.ring.fd, shared.data_fd)
    rank = DATA_POOL - orders.plan.rank_of(orders.plan.placements[0])
    log = log_of(orders.run_folder, rank)
    return WorkerProcess(rank, command, log, (*fds, *kept_fds), (*STOPPING, *ASKING))
