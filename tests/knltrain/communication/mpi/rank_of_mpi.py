"""One rank of an MPI job that nothing has launched.

Its arguments: rank, ranks, folder, scenario, limit_seconds, and end_seconds for the end of MPI.
It prints what it has come to, a line each, and goes on at some points when it is told to.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
from folder_store import FolderStore

from knltrain.communication.mpi.joining import join_mpi, leave_mpi
from knltrain.communication.mpi.library import mpi_library
from knltrain.communication.rendezvous.network_interface import interfaces
from knltrain.errors import KnltrainError


class DeadlyStore(FolderStore):
    """Kills its process while MPI's files in shared memory have names: the others await it then."""

    def put(self, key: str, value: str) -> None:
        named = {str(path) for path in Path("/dev/shm").glob("*[Mm][Pp][Ii]*")}
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
        if not named.isdisjoint(maps):
            os.kill(os.getpid(), signal.SIGKILL)
        super().put(key, value)


def main() -> None:
    rank, ranks, folder, scenario = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    limit_seconds, end_seconds = float(sys.argv[5]), float(sys.argv[6])
    cpus = os.sched_getaffinity(0)
    address = next((own for own in interfaces().values() if not own.startswith("127.")), None)
    store = (DeadlyStore if scenario == "dies" and rank == 0 else FolderStore)(Path(folder))
    mpi = join_mpi(rank, ranks, store, limit_seconds, address)
    world = mpi.COMM_WORLD
    on_node = world.Split_type(mpi.COMM_TYPE_SHARED).size
    several_threads = mpi.Query_thread() == mpi.THREAD_MULTIPLE
    say("joined", world.rank, world.size, on_node, several_threads)
    assert os.sched_getaffinity(0) == cpus
    assert scenario == "launched" or "PMI_RANK" not in os.environ
    say("read", add_and_read(mpi))
    if scenario == "waits":
        sys.stdin.readline()
    if scenario == "fails":
        raise SystemExit(7)
    if scenario == "aborts" and rank == 1:
        mpi_library().functions.MPI_Abort(mpi._handleof(world), 9)
        threading.Event().wait()
    say("left", leave_mpi(end_seconds))
    assert not leave_mpi(end_seconds)


def say(*words: object) -> None:
    """Print a line in one piece: others print, too."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def add_and_read(mpi) -> float:
    """All add rank + 1 to the window of rank 0, ten times; what each then reads there."""
    world = mpi.COMM_WORLD
    window = mpi.Win.Allocate(4 * 8, 8, comm=world)
    memory = np.frombuffer(window.tomemory(), dtype="d")
    window.Lock_all()
    memory[:] = 0
    window.Sync()
    world.Barrier()
    for _ in range(10):
        window.Accumulate(np.full(4, 1.0 + world.rank), 0)
        window.Flush(0)
    world.Barrier()
    found = np.zeros(4)
    window.Get(found, 0)
    window.Flush(0)
    world.Barrier()
    window.Unlock_all()
    window.Free()
    assert len(set(found)) == 1
    return float(found[0])


if __name__ == "__main__":
    try:
        main()
    except KnltrainError as error:
        say(type(error).__name__, error)
        raise SystemExit(error.exit_code) from None
