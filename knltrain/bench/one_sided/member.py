"""One-sided work of one rank on the memory of another.

    mpiexec -n 2 python -m mpi4py -m knltrain.bench.one_sided.member OPTIONS

Rank 0 owns the memory and computes, in Python or in a compiled loop, or sleeps; it calls no MPI
itself. Rank 1 reads, writes and accumulates, in turn with a copy within its own memory. It prints a
line of JSON: seconds of each round, and the median bandwidth of the vector in bytes per second.

Between two computers, chosen by `mpiexec -hosts`, the link is the bound. `sent` is the bandwidth of
MPI's two-sided messages over it, while both ranks do nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from knltrain.bench.exchange.member import check_values
from knltrain.communication.memory_box.remote import RemoteBox, Vector
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.vectors import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel

_MESSAGES = 5
_SLEEP_SECONDS = 0.01
_ROOM_BYTES = 2**20


@kernel
def _count(numbers: FloatArray) -> float:
    """Compute for some milliseconds, without the GIL."""
    total = 0.0
    for _ in range(300):
        for number in numbers:
            total = 0.5 * total + number
    return total


def computing(how: str) -> Callable[[], object]:
    """Return the function that the owner calls again and again."""
    numbers = np.ones(4096, np.float32)
    ways: dict[str, Callable[[], object]] = {
        "python": lambda: sum(range(100_000)),
        "numba": lambda: _count(numbers),
        "sleep": lambda: time.sleep(_SLEEP_SECONDS),
    }
    ways[how]()
    return ways[how]


def own(center: Vector, compute: Callable[[], object]) -> float:
    """Compute, once at least, until the other rank has done; return rounds per second."""
    ended = threading.Event()

    def listen() -> None:
        center.wait(0, timeout_seconds=600)
        ended.set()

    waiting = threading.Thread(target=listen)
    waiting.start()
    begin, rounds = time.perf_counter(), 0
    while rounds == 0 or not ended.is_set():
        compute()
        rounds += 1
    waiting.join()
    return rounds / (time.perf_counter() - begin)


def measured(center: Vector, increment: Vector, rounds: int) -> dict[str, list[float]]:
    """Return seconds of each operation in each round; WrongResult if a result is wrong."""
    vector, other = np.ones(center.size, np.float32), np.zeros(center.size, np.float32)
    increment.write(vector)
    operations: dict[str, Callable[[], object]] = {
        "copy": lambda: np.copyto(other, vector),
        "read": lambda: center.read(other),
        "write": lambda: center.write(vector),
        "accumulate": lambda: center.accumulate(increment),
    }
    seconds: dict[str, list[float]] = {name: [] for name in operations}
    for turn in range(rounds + 1):
        for name, operation in operations.items():
            begin = time.perf_counter()
            operation()
            if turn:  # the first one warms up
                seconds[name].append(time.perf_counter() - begin)
    center.read(other)
    check_values("accumulate", [other], 2)
    return seconds


def sent(world: Any, size: int) -> list[float]:
    """Return seconds of two-sided messages, ``size`` floats from rank 1 to rank 0 and a reply."""
    vector, seconds = np.ones(size, np.float32), []
    for _ in range(_MESSAGES):
        world.Barrier()
        begin = time.perf_counter()
        if world.rank == 1:
            world.Send(vector, 0)
            world.recv(source=0)
        else:
            world.Recv(vector, 1)
            world.send(None, 1)
        seconds.append(time.perf_counter() - begin)
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, as one of two ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", type=int, default=28_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--owner", choices=("python", "numba", "sleep"), default="numba")
    asked = parser.parse_args(arguments)
    mpi, size = load_mpi(), asked.bytes // 4
    world = mpi.COMM_WORLD
    if world.size != 2:
        parser.error(f"{world.size} ranks: expected 2, as mpiexec -n 2 starts them")
    seconds = {"sent": sent(world, size)}
    with RemoteBox.create(world, asked.bytes + _ROOM_BYTES, servers=[0]) as box:
        key = world.bcast(box.create_buffer(size).key if world.rank == 0 else None)
        center = box.open(key)
        compute = computing(asked.owner)
        world.Barrier()
        if world.rank == 0:
            alone = own(center, compute)
            world.send(alone, 1)
        else:
            seconds |= measured(center, box.create_buffer(size, private=True), asked.rounds)
            center.notify()
            print(json.dumps(_report(mpi, asked, seconds, world.recv(source=0))), flush=True)


def _report(
    mpi: Any, asked: argparse.Namespace, seconds: dict[str, list[float]], computed: float
) -> dict[str, Any]:
    rates = {name: asked.bytes / statistics.median(each) for name, each in seconds.items()}
    return {
        "library": mpi.Get_library_version().splitlines()[0].strip(" \0"),
        "bytes": asked.bytes,
        "owner": asked.owner,
        "owner_rounds_per_second": computed,
        "seconds": seconds,
        "bytes_per_second": rates,
    }


if __name__ == "__main__":
    main()
