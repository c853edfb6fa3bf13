from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from knltrain.communication.collectives import GroupSegment
from knltrain.communication.reduction.node_rendezvous import _await_all, met_group
from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost, SegmentError


@pytest.fixture
def address() -> str:
    return f"test-{secrets.token_hex(6)}"


@pytest.mark.parametrize(("rank", "ranks"), [(2, 2), (-1, 2), (0, 0)])
def test_rank_that_cannot_be_is_refused(address: str, rank: int, ranks: int) -> None:
    with pytest.raises(CollectiveError, match=f"rank {rank} of {ranks} at address"):
        met_group(address, rank, ranks, 1.0)


def test_rank_that_does_not_come_is_named(address: str) -> None:
    with pytest.raises(ExchangeTimeout, match=r"in vain for rank 1, 2 .*expected 3 ranks"):
        met_group(address, 0, 3, 0.2)


def test_rank_0_that_does_not_come_is_missed(address: str) -> None:
    with pytest.raises(ExchangeTimeout, match="rank 0 did not come in time"):
        met_group(address, 1, 2, 0.2)


def test_rank_0_may_come_last(address: str) -> None:
    found = []
    early = threading.Thread(target=lambda: found.append(met_group(address, 1, 2, 20.0)))
    early.start()
    segment, group = met_group(address, 0, 2, 20.0)
    early.join(20)
    assert (group.rank, group.ranks, found[0][1].rank) == (0, 2, 1)
    segment.leave(0)
    found[0][0].leave(1)


def test_ranks_that_expect_different_numbers_do_not_meet(address: str) -> None:
    caught = []

    def come() -> None:
        try:
            met_group(address, 1, 3, 20.0)
        except SegmentError as error:
            caught.append(str(error))

    other = threading.Thread(target=come)
    other.start()
    with pytest.raises(ExchangeTimeout):
        met_group(address, 0, 2, 1.0)
    other.join(20)
    assert "no segment for 3 ranks" in caught[0]


def test_address_of_another_program_is_refused(address: str) -> None:
    segment = GroupSegment.create(1)
    refused = pytest.raises(SegmentError, match="cannot listen at address")
    with closing(DescriptorServer(segment.fd, address)), refused:
        met_group(address, 0, 2, 1.0)
    segment.leave(0)


def test_rank_that_came_and_has_ended_is_lost(address: str) -> None:
    segment = GroupSegment.create(2)
    program = (
        "import os, sys\n"
        "from knltrain.communication.collectives import GroupSegment\n"
        "GroupSegment.attach(int(sys.argv[1]), 2).claim(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(segment.fd)], pass_fds=(segment.fd,), check=False
    )
    assert done.returncode == 0
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        _await_all(segment, address, 5.0)
    segment.leave(0)
