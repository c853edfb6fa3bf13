"""Joins a worker of a run with the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

from knltrain.assembly import factories
from knltrain.assembly.methods import strategy_of
from knltrain.assembly.names import (
    build_center_formats,
    build_method,
    network_size,
    written_for_the_wire,
)
from knltrain.cluster.worker import MeetingPoint
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.exchange.transports.team import TeamFactory

if TYPE_CHECKING:
    from knltrain.exchange.transports.joining import JoinJob
    from knltrain.exchange.transports.team import Team
    from knltrain.network.layer_slices import PackedLayers


def build_team(
    config: RunConfig,
    segment_fds: Sequence[int],
    rank: int,
    meeting_point: MeetingPoint | None = None,
    packed: PackedLayers | None = None,
) -> Team:
    """The team of a worker: through the node's groups, or by itself without any.

    On several nodes their first workers find each other at `meeting_point`; in one job, all
    workers do. `packed` is what lies in the vectors, by default the configured network.
    """
    teams = _WorkerTeams(config, segment_fds, rank, meeting_point, packed)
    alone = METHODS[config.exchange.method].comes_alone
    return strategy_of(config).join(teams, comes_alone=alone)


@final
@dataclass(frozen=True, slots=True)
class _WorkerTeams(TeamFactory):
    """The teams of a worker's process."""

    config: RunConfig
    segment_fds: Sequence[int]
    rank: int
    meeting_point: MeetingPoint | None
    packed: PackedLayers | None

    @property
    def _size(self) -> int:
        return network_size(self.config) if self.packed is None else self.packed.packed_size

    def meeting_all(self) -> Team:
        """Through the node's memory, and by a collective between the first workers of nodes."""
        if not self.segment_fds or self.meeting_point is None:
            return self._on_one_node()
        from knltrain.exchange.transports.joining import join_across_nodes

        config, nodes = self.config, self.config.total_nodes
        node, local_rank = divmod(self.rank, int(config.workers))
        collective = None
        if local_rank == 0:
            plain = factories.between_nodes(config, node, nodes, self.meeting_point, self._size)
            collective = written_for_the_wire(config, plain, self._size)
        limit = patience_seconds(config)
        return join_across_nodes(self.segment_fds, local_rank, limit, node, nodes, collective)

    def visiting(self) -> Team:
        """Through the node's memory, or to a center on all nodes, whose visitors are ranks of MPI.

        Visitors are all workers, or the roots of their groups.
        """
        if not self.segment_fds or self.meeting_point is None:
            return self._on_one_node()
        from knltrain.exchange.transports.joining import join_for_one_sided
        from knltrain.worker.termination import MEETING_SECONDS

        join = partial(
            join_for_one_sided,
            longest_seconds=MEETING_SECONDS,
            servers=self.config.exchange.servers,
            formats=build_center_formats(self.config, self._size),
        )
        return self._as_ranks(join, self.meeting_point)

    def in_one_job(self) -> Team:
        """As a rank of MPI, or alone."""
        from knltrain.exchange.transports.job_team import JobTeam
        from knltrain.exchange.transports.joining import join_one_job

        if self.meeting_point is None:
            return JobTeam.of_one()
        return self._as_ranks(join_one_job, self.meeting_point)

    def _on_one_node(self) -> Team:
        if self.segment_fds:
            from knltrain.exchange.transports.joining import join

            return join(self.segment_fds, self.rank, patience_seconds(self.config))
        from knltrain.exchange.transports.loopback import Loopback

        method = build_method(self.config, workers=1, packed=self.packed)
        return Loopback(self._size, method.rule.center_vectors, method.strategy.needs_spares)

    def _as_ranks(
        self,
        join: Callable[[Sequence[int], int, int, JoinJob, float], Team],
        meeting_point: MeetingPoint,
    ) -> Team:
        """With all workers of the rendezvous, as ranks of one job of MPI."""
        from knltrain.communication.mpi.joining import join_mpi
        from knltrain.worker.termination import MEETING_SECONDS

        def job(rank: int, ranks: int, check: Callable[[], None]) -> Any:
            from knltrain.communication.rendezvous.torch_store import TorchStore, meeting_store

            store = TorchStore(meeting_store(meeting_point, MEETING_SECONDS))
            return join_mpi(rank, ranks, store, MEETING_SECONDS, meeting_point.own_address, check)

        config = self.config
        limit = patience_seconds(config)
        return join(self.segment_fds, self.rank, config.total_workers, job, limit)


def patience_seconds(config: RunConfig) -> float:
    """The timeout for a late worker: so much per step since the last meeting, up to a meeting's."""
    from knltrain.worker.termination import MEETING_SECONDS

    limit, period = config.exchange.timeout_seconds, config.exchange.communication_period
    return min(limit * period, max(limit, MEETING_SECONDS))
