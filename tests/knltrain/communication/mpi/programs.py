"""What ranks do with the MPI layer: `mpiexec -n 2 python -m mpi4py programs.py NAME`."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.polling import FAILED, address_of, finish_until, scratch
from knltrain.communication.mpi.progress import Progress
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ExchangeTimeout, PeerLost

MPI = load_mpi()
WORLD = MPI.COMM_WORLD
OTHER = 1 - WORLD.rank
SIZE = 100_000


def requests_are_finished() -> None:
    """Several at once, which become null, in whatever order messages come."""
    found = np.zeros((3, SIZE), np.float32)
    requests = [WORLD.Irecv(found[tag], OTHER, tag) for tag in range(3)]
    sends = [WORLD.Isend(np.full(SIZE, tag + 1, np.float32), OTHER, tag) for tag in (2, 0, 1)]
    Completion(MPI, 20).of([*requests, *sends], lambda: "messages")
    assert all(request == MPI.REQUEST_NULL for request in (*requests, *sends))
    assert np.all(found == np.array([[1], [2], [3]]))
    Completion(MPI, 20).of([], lambda: "nothing")


def what_does_not_come_ends_the_wait() -> None:
    if WORLD.rank == 0:
        request = WORLD.Irecv(np.zeros(1), OTHER, 7)
        begin, used = time.perf_counter(), time.process_time()
        with pytest.raises(ExchangeTimeout, match=r"waited 0\.5 s in vain for a sign"):
            Completion(MPI, 0.5).of([request], lambda: "a sign")
        used, taken = time.process_time() - used, time.perf_counter() - begin
        assert used < 0.8 * taken, (used, taken)  # asleep for part of it
        request.Cancel()
        request.Wait()
    WORLD.Barrier()


def who_was_stopped_has_not_waited_meanwhile() -> None:
    """As when a scheduler suspends a whole job, for longer than anybody may be late."""
    if WORLD.rank == 0:
        before, stopped_seconds = time.monotonic, [0.0]

        def check() -> None:
            if not stopped_seconds[0]:
                stopped_seconds[0] = 1000.0
                WORLD.send(None, OTHER)

        time.monotonic = lambda: before() + stopped_seconds[0]
        found = np.zeros(1)
        request = WORLD.Irecv(found, OTHER, 7)
        Completion(MPI, 30, check).of([request], lambda: "a sign")
        time.monotonic = before
        assert (found[0], stopped_seconds[0]) == (5, 1000)
    else:
        WORLD.recv(source=OTHER)
        WORLD.Send(np.array([5.0]), OTHER, 7)


def error_of_mpi_is_told() -> None:
    if WORLD.rank == 0:
        handle, results = np.full(1, -1, np.int32), scratch()  # a handle that is none
        WORLD.Set_errhandler(MPI.ERRORS_RETURN)
        MPI.COMM_SELF.Set_errhandler(MPI.ERRORS_RETURN)
        places = np.array([handle.ctypes.data])
        left = finish_until(address_of(MPI, "MPI_Test"), places, results, 0, 10**9)
        assert left == FAILED
        assert results[2] != 0
    WORLD.Barrier()


def owner_that_computes_answers() -> None:
    """With the thread; nobody else calls MPI there, and Python's lock is nearly always held."""
    window = MPI.Win.Allocate(4 * SIZE if WORLD.rank == 0 else 0, 1, comm=WORLD)
    window.Lock_all()
    group = WORLD.Dup()
    progress = Progress(MPI, group) if WORLD.rank == 0 else None
    WORLD.Barrier()
    if progress is not None:
        memory, end = np.frombuffer(window.tomemory(), np.float32), time.monotonic() + 30
        while memory[0] == 0 and time.monotonic() < end:
            sum(range(10_000))
        assert memory[0] == 1  # while it was still at it
    else:
        found = np.ones(SIZE, np.float32)
        for _ in range(3):
            Completion(MPI, 30).of(
                [window.Rget([found, MPI.FLOAT], 0, (0, SIZE, MPI.FLOAT))], lambda: "values"
            )
        window.Put([np.ones(1, np.float32), MPI.FLOAT], 0, (0, 1, MPI.FLOAT))
        window.Flush(0)
    WORLD.Barrier()
    if progress is not None:
        progress.stop()
    window.Unlock_all()
    window.Free()
    group.Free()


def thread_without_work_sleeps() -> None:
    progress = Progress(MPI, WORLD.Dup())
    time.sleep(0.3)
    begin, used = time.perf_counter(), time.process_time()
    time.sleep(1.0)
    share = (time.process_time() - used) / (time.perf_counter() - begin)
    progress.stop()
    assert not progress._thread.is_alive()
    assert share < 0.2, share
    WORLD.Barrier()


def failure_in_the_thread_is_told() -> None:
    if WORLD.rank == 0:
        progress = Progress(MPI, MPI.COMM_SELF)
        progress.stop()
        progress._failed, progress._results[2] = True, MPI.ERR_OTHER
        with pytest.raises(PeerLost, match=r"MPI failed: .*another process may be gone"):
            progress.check()
    WORLD.Barrier()


def thread_that_nobody_stops_lets_the_process_end() -> None:
    globals()["kept"] = Progress(MPI, MPI.COMM_SELF.Dup())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
