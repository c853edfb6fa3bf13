"""One-sided work of many ranks at once on the memory of another, each on a buffer of its own.

    mpiexec -n 9 python -m mpi4py -m knltrain.bench.one_sided.sweep_member --bytes 28000000

Rank 0 has the memory and does nothing else; every other rank reads its buffer and writes it, as
often as the other. So ShmCaffe measured its memory box (Ahn et al., ICDCS 2018). Rank 1 prints a
line of JSON: seconds of all together by trial, and of a copy within its own memory while the others
wait.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence

import numpy as np

from knltrain.bench.exchange.member import check_values
from knltrain.communication.memory_box.remote import RemoteBox
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.exchange.transports.mpi_team import MpiTeam

_PATIENCE_SECONDS = 600.0
_ROOM_BYTES = 2**16
"""More than a buffer loses by rounding to pages."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, as one of the ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", type=int, default=28_000_000)
    parser.add_argument("--trials", type=int, default=10)
    asked = parser.parse_args(arguments)
    mpi, size = load_mpi(), asked.bytes // 4
    world = mpi.COMM_WORLD
    if world.size < 2:
        parser.error("1 rank: expected 2 at least, as mpiexec -n 2 starts them")
    team = MpiTeam(mpi, _PATIENCE_SECONDS, _nothing)  # whose ranks sleep while they wait
    room = (world.size - 1) * (asked.bytes + _ROOM_BYTES)
    box = RemoteBox.create(world, room, servers=[0], timeout_seconds=_PATIENCE_SECONDS)
    buffer = box.create_buffer(size) if world.rank else None
    vector, other = np.full(size, world.rank, np.float32), np.zeros(size, np.float32)

    def both() -> None:
        if buffer is not None:
            buffer.write(vector)
            buffer.read(other)

    def copy() -> None:
        if world.rank == 1:
            np.copyto(other, vector)

    together, copied = (
        [_seconds(team, work) for _ in range(asked.trials + 1)][1:] for work in (both, copy)
    )
    if buffer is not None:
        buffer.read(other)
        check_values("read", [other], world.rank)
    team.barrier()
    box.close()
    if world.rank == 1:
        library = mpi.Get_library_version().splitlines()[0].strip(" \0")
        print(json.dumps({"library": library, "seconds": together, "copy": copied}), flush=True)


def _seconds(team: MpiTeam, work: Callable[[], None]) -> float:
    """Return the longest time of all ranks, which begin together."""
    team.barrier()
    begin = time.perf_counter()
    work()
    mine = time.perf_counter() - begin
    return float(team.gathered(np.array([mine])).max())


def _nothing() -> None:
    """Check nothing: mpiexec ends all ranks when one fails."""


if __name__ == "__main__":
    main()
