"""The rendezvous of processes of one node, however they were started: by an address."""

from __future__ import annotations

import os
import time

from knltrain.communication.collectives import Group, GroupSegment
from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost, SegmentError

_PAUSE_SECONDS = 0.02
_WAY_OUT = "give NodeReducer.meet a longer timeout_seconds"


def met_group(
    address: str, rank: int, ranks: int, timeout_seconds: float
) -> tuple[GroupSegment, Group]:
    """Return the segment and the group of all ranks that use ``address``, once all are there.

    Errors are those of `NodeReducer.meet`.
    """
    if not 0 <= rank < ranks:
        raise CollectiveError(
            f"rank {rank} of {ranks} at address {address!r}: expected a rank from 0 to "
            f"{ranks - 1}, each once"
        )
    deadline = time.monotonic() + timeout_seconds
    segment = GroupSegment.create(ranks) if rank == 0 else _entered(address, ranks, deadline)
    try:
        segment.claim(rank)
        door = _opened(address, segment) if rank == 0 else None
        try:
            _await_all(segment, address, deadline - time.monotonic())
        finally:
            if door is not None:
                door.close()
    except BaseException:
        segment.leave(rank)
        raise
    names = [f"rank {each}" for each in range(ranks)]
    return segment, Group(segment, rank, names, timeout_seconds, _WAY_OUT)


def _opened(address: str, segment: GroupSegment) -> DescriptorServer:
    try:
        return DescriptorServer(segment.fd, address)
    except OSError as error:
        raise SegmentError(
            f"rank 0 cannot listen at address {address!r}: {error.strerror or error}; expected a "
            "short text that no other program on this computer uses"
        ) from None


def _entered(address: str, ranks: int, deadline: float) -> GroupSegment:
    """Map the segment of rank 0, which may start later."""
    while True:
        try:
            fd = fd_behind(address)
            break
        except SegmentError as error:
            if time.monotonic() > deadline:
                raise ExchangeTimeout(
                    f"rank 0 did not come in time: {error}; start rank 0 on this computer, "
                    "with the same address"
                ) from None
            time.sleep(_PAUSE_SECONDS)
    try:
        return GroupSegment.attach(fd, ranks)
    except SegmentError:
        os.close(fd)
        raise


def _await_all(segment: GroupSegment, address: str, limit_seconds: float) -> None:
    def missing() -> list[int]:
        return [rank for rank in range(segment.ranks) if not segment.holder(rank)]

    def check_alive() -> None:
        for rank in range(segment.ranks):
            holder = segment.holder(rank)
            if holder and not process_identity.is_alive(holder):
                ended = process_identity.process_id(holder)
                raise PeerLost(f"rank {rank} is gone: its process {ended} has ended")

    if not nap_until(lambda: not missing(), lambda: None, check_alive, limit_seconds):
        absent = ", ".join(str(rank) for rank in missing())
        raise ExchangeTimeout(
            f"waited {limit_seconds:.0f} s in vain for rank {absent} at address {address!r}: "
            f"expected {segment.ranks} ranks; start them, or give a longer timeout_seconds"
        )
