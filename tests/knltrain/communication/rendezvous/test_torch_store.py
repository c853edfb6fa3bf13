from __future__ import annotations

import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from knltrain.cluster.worker import MeetingPoint
from knltrain.communication.mpi.library import mpi_library
from knltrain.communication.rendezvous.torch_store import TorchStore, meeting_store
from knltrain.errors import ConfigError, PeerLost

ROOT = Path(__file__).parents[4]
RANK = """
import sys
from knltrain.cluster.worker import MeetingPoint
from knltrain.communication.mpi.joining import join_mpi, leave_mpi
from knltrain.communication.rendezvous.torch_store import TorchStore, meeting_store

rank, port, fd = map(int, sys.argv[1:])
point = MeetingPoint("127.0.0.1", port, "127.0.0.1", fd if rank == 0 else None)
store = TorchStore(meeting_store(point, 60.0))
mpi = join_mpi(rank, 2, store, 60.0, point.own_address)
print(mpi.COMM_WORLD.allreduce(10 + rank), leave_mpi(60.0))
"""


def served(limit_seconds: float = 20.0) -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=limit_seconds), False)


def test_words_are_seen_by_all_clients_of_a_tcp_store():
    server = served()
    client = dist.TCPStore("127.0.0.1", server.port, None, False, timedelta(seconds=20), False)
    assert TorchStore(client).get("a") is None
    TorchStore(server).put("a", "wörd")  # its server may be told after it has answered the client
    client.wait(["knltrain mpi a"])
    assert TorchStore(client).get("a") == "wörd"
    assert TorchStore(client, "other ").get("a") is None


@pytest.mark.slow
def test_a_store_that_is_gone_is_told_as_a_lost_peer():
    command = (
        "import sys, datetime, torch.distributed as d; s = d.TCPStore('127.0.0.1', 0, None, True,"
        "datetime.timedelta(seconds=20), False); print(s.port, flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        client = dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=20), False)
        TorchStore(client).put("a", "1")
    with pytest.raises(PeerLost, match="key-value store of all ranks does not answer"):
        for _ in range(3):
            TorchStore(client).get("a")
    with pytest.raises(PeerLost):
        TorchStore(client).put("a", "1")


@pytest.mark.slow
def test_a_meeting_point_where_nobody_listens_is_told_as_a_lost_peer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PeerLost):
        meeting_store(MeetingPoint("127.0.0.1", port, "127.0.0.1"), 1.0)


@pytest.mark.slow
def test_ranks_of_mpi_find_each_other_by_the_store_at_their_meeting_point():
    try:
        if not mpi_library().speaks_pmi:
            pytest.skip("the MPI library here needs its own launcher")
    except ConfigError as error:
        pytest.skip(str(error))
    with socket.create_server(("", 0)) as listener:
        fd, port = listener.fileno(), listener.getsockname()[1]
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, str(rank), str(port), str(fd)],
                cwd=ROOT,
                pass_fds=[fd] if rank == 0 else [],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
    assert [rank.communicate(timeout=120)[0].strip() for rank in ranks] == ["21 True"] * 2
