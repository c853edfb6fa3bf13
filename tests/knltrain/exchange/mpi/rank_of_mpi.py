"""One rank of an MPI job that nothing has launched: `rank ranks host port scenario`."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import numpy as np
import torch.distributed as dist

from knltrain.errors import KnltrainError
from knltrain.exchange.mpi.joining import join_mpi, leave_mpi
from knltrain.exchange.network_interface import address_towards
from knltrain.torch_distributed.key_values import TorchStore


def add_and_read(mpi) -> None:
    """Everyone adds to the window of rank 0, and reads what has come of it."""
    world = mpi.COMM_WORLD
    window = mpi.Win.Allocate(4 * 8, 8, comm=world)
    memory = np.frombuffer(window.tomemory(), dtype="d")
    window.Lock_all()
    memory[:] = 0
    window.Sync()
    world.Barrier()
    for _ in range(50):
        window.Accumulate(np.full(4, 1.0 + world.rank), 0)
        window.Flush(0)
    world.Barrier()
    found = np.zeros(4)
    window.Get(found, 0)
    window.Flush(0)
    assert found.tolist() == [50.0 * sum(range(1, world.size + 1))] * 4, found
    world.Barrier()
    window.Unlock_all()
    window.Free()


def main() -> None:
    rank, ranks, port = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    host, scenario = sys.argv[3], sys.argv[5]
    limit = float(sys.argv[6]) if len(sys.argv) > 6 else 60.0
    cpus = os.sched_getaffinity(0)
    store = dist.TCPStore(host, port, None, rank == 0, timedelta(seconds=30), False)
    if scenario == "never comes" and rank == ranks - 1:
        print("absent", flush=True)
        time.sleep(60)
    mpi = join_mpi(rank, ranks, TorchStore(store), limit, address_towards(host))
    world = mpi.COMM_WORLD
    node = world.Split_type(mpi.COMM_TYPE_SHARED)
    print("joined", world.rank, world.size, node.size, mpi.Query_thread() == mpi.THREAD_MULTIPLE)
    assert os.sched_getaffinity(0) == cpus
    assert "PMI_RANK" not in os.environ
    add_and_read(mpi)
    print("added", flush=True)
    if scenario == "fails":
        raise SystemExit(7)
    if scenario == "is killed":
        sys.stdin.readline()
    started = time.monotonic()
    print("left", leave_mpi(limit), f"{time.monotonic() - started:.2f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KnltrainError as error:
        print(type(error).__name__, error, flush=True)
        raise SystemExit(error.exit_code) from None
