"""The rendezvous of the ranks of a new group: by the address of its segment in the store."""

from __future__ import annotations

import os
import time
from typing import Any

from torch._C._distributed_c10d import Store

from knltrain.communication.collectives import Group, GroupSegment, PointToPoint
from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, PeerLost, SegmentError
from knltrain.torch_distributed.knlshm.process_group import KnlshmProcessGroup
from knltrain.torch_distributed.store import PAUSE_SECONDS, boot_id, heard, told

_KEY = "knlshm"


def create_process_group(options: Any, _backend_options: Any) -> KnlshmProcessGroup:
    """Find the other ranks of a group and share a segment with them; torch calls this.

    Raises SegmentError if the ranks are not on one computer or there is no memory, ExchangeTimeout
    if a rank does not come within the group's timeout, PeerLost if it came and has ended.
    """
    rank, ranks = options.group_rank, options.group_size
    limit_seconds = options.timeout.total_seconds()
    numbers = list(options.global_ranks_in_group) or list(range(ranks))
    segment = (
        GroupSegment.create(ranks) if rank == 0 else _attach(options.store, limit_seconds, ranks)
    )
    try:
        segment.claim(rank)
        if rank == 0:
            _let_in(options.store, segment, limit_seconds)
        else:
            _await_all(segment, limit_seconds)
    except BaseException:
        segment.leave(rank)
        raise
    group = Group(segment, rank, [f"rank {number}" for number in numbers], limit_seconds)
    return KnlshmProcessGroup(segment, group, PointToPoint(segment, rank, group.peer_wait))


def _let_in(store: Store, segment: GroupSegment, limit_seconds: float) -> None:
    """Pass the segment to all other ranks."""
    door = DescriptorServer(segment.fd)
    try:
        with told(store, _KEY, f"{boot_id()} {door.address}"):
            _await_all(segment, limit_seconds)
    finally:
        door.close()


def _attach(store: Store, limit_seconds: float, ranks: int) -> GroupSegment:
    """Map the segment of rank 0, whose address may still be that of an earlier group."""
    deadline = time.monotonic() + limit_seconds
    while True:
        computer, _, address = heard(store, _KEY, deadline, limit_seconds).partition(" ")
        if computer != boot_id():
            raise SegmentError(
                "the ranks of the group run on several computers: expected one, as knlshm is "
                'shared memory; use the backend "ccl" or "gloo" between computers'
            )
        try:
            fd = fd_behind(address)
        except SegmentError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
            continue
        try:
            return GroupSegment.attach(fd, ranks)
        except SegmentError:
            os.close(fd)
            raise


def _await_all(segment: GroupSegment, limit_seconds: float) -> None:
    """Wait until every rank has the segment."""
    ranks = range(segment.ranks)

    def missing() -> list[int]:
        return [rank for rank in ranks if not segment.holder(rank)]

    def check_alive() -> None:
        for rank in ranks:
            holder = segment.holder(rank)
            if holder and not process_identity.is_alive(holder):
                ended = process_identity.process_id(holder)
                raise PeerLost(
                    f"rank {rank} of a new group is gone: process {ended} has ended, or runs where "
                    "its process number means another (a container)"
                )

    if not nap_until(lambda: not missing(), lambda: None, check_alive, limit_seconds):
        raise ExchangeTimeout(
            f"waited {limit_seconds:g} s in vain for ranks {missing()} of a new group: expected "
            "all of its ranks to create it"
        )
    check_alive()
