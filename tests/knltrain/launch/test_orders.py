"""What the processes of a run are told when they are started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from affinity import Placement
from knltrain.cluster.worker import MeetingPoint
from knltrain.config import RunConfig
from knltrain.exchange.transports.board import RequestBoard
from knltrain.input.batch_ring import BatchRing
from knltrain.input.batch_shape import BatchShape
from knltrain.launch.node_share import NodeShare
from knltrain.launch.orders import Orders
from knltrain.launch.plan import RunPlan
from knltrain.launch.shared_memory import Shared


class Memory:
    """In place of a node's memory."""

    def fds_of(self, rank: int) -> tuple[int, ...]:
        return (50 + rank,)


def orders(ring: BatchRing | None, meeting_point: MeetingPoint | None = None) -> Orders:
    """Of the second of two computers with two workers each."""
    config = RunConfig.model_validate(
        {
            "workers": 2,
            "nodes": 2,
            "network": {"name": "lenet"},
            "data": {"name": "digits"},
            "train": {"steps": 1, "batch": 8},
            "learning_rate": {"base": 0.1},
        }
    )
    pool = None if ring is None else Placement(-1, (2,), 1, (0,), ((2,),))
    places = tuple(Placement(rank, (rank,), 1, (0,)) for rank in range(2))
    plan = RunPlan(config, places, 1, node_share=NodeShare(1, 2), pool=pool)
    memory: Any = Memory()
    shared = Shared(memory, None if ring is None else 90, ring, ())
    return Orders(plan, Path("run"), shared, meeting_point, False, RequestBoard.create(2))


@pytest.fixture
def ring() -> Any:
    made = BatchRing.create(2, 2, BatchShape(2, (4, 4, 1)))
    yield made
    made.close()


def test_a_worker_is_told_its_part_of_what_is_shared(ring: BatchRing) -> None:
    told = orders(ring)
    place = told.plan.placements[1]
    identity = told.identity(place, 7)
    assert (identity.rank, identity.workers, identity.segment_fds) == (3, 4, (51,))
    assert (identity.data_fd, identity.batches) == (90, (ring.fd, 1, 2))
    assert identity.requests == (told.board.fd, 1)
    assert told.fds(place) == (51, 90, ring.fd, told.board.fd)
    told.board.close()


def test_without_a_pool_a_worker_makes_its_own_batches() -> None:
    told = orders(None)
    identity = told.identity(told.plan.placements[0], 7)
    assert (identity.data_fd, identity.batches) == (None, None)
    assert told.fds(told.plan.placements[0]) == (50, told.board.fd)
    told.board.close()


def test_a_pool_is_told_the_ranks_of_its_workers(ring: BatchRing) -> None:
    told = orders(ring)
    identity = told.pool_identity(7)
    assert (identity.first_rank, identity.workers, identity.all_workers) == (2, 2, 4)
    assert (identity.threads, identity.batches_fd, identity.data_fd) == (1, ring.fd, 90)
    told.board.close()


def test_the_first_worker_alone_gets_the_listening_descriptor() -> None:
    told = orders(None, MeetingPoint("host", 1, "own", 60))
    point = told.meeting_point_of(told.plan.placements[0])
    assert point is not None
    assert point.fd is None  # rank 2
    assert 60 not in told.fds(told.plan.placements[0])
    told.board.close()


def test_an_abort_reaches_the_rings(ring: BatchRing) -> None:
    Shared(None, None, ring, ()).abort(143)
    assert ring.abort_code == 143
    Shared(None, None, None, ()).abort(143)


def test_workers_of_a_new_run_are_told_where_its_parameters_are_drawn() -> None:
    told = orders(None)
    initial: Any = SimpleNamespace(fds=(70, 71))
    for given, fds in ((None, ()), (initial, (70, 71))):
        again = replace(told, initial=given)
        place = again.plan.placements[1]
        assert again.identity(place, 7).initial == (fds or None)
        assert again.fds(place) == (51, told.board.fd, *fds)
    told.board.close()
