"""MPI as a contestant: `mpiexec -n P python -m mpi4py -m knltrain.bench.exchange.mpi_member CPUS`.

CPUS is a JSON list with the cpus of each rank. Rank 0 talks to the benchmark and passes its
questions on; its times are those from the first begin to the last end. Between questions the other
ranks sleep, because waiting in MPI itself would keep a core busy.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from knltrain.bench.exchange.all_reduce import ReducedVectors
from knltrain.bench.exchange.member import Answers, HeldVectors, Member, serve_apart

_NAP_SECONDS = 0.002


@final
class MPIMember(Member):
    """A rank of MPI's world."""

    def __init__(self, world: Any, in_place: Any, version: str) -> None:
        self._world, self._in_place = world, in_place
        self.version = version

    def hold(self, sizes: Sequence[int], handles: Sequence[Any]) -> HeldVectors:  # noqa: ARG002
        """Allocate vectors of these sizes."""
        vectors = [np.zeros(size, np.float32) for size in sizes]
        reduce = [partial(self._world.Allreduce, self._in_place, vector) for vector in vectors]
        world = self._world
        return ReducedVectors(world.rank, world.size, vectors, reduce, world.Barrier)


def main(cpus: Sequence[Sequence[int]]) -> None:
    """Serve as rank 0, obey as another."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    os.sched_setaffinity(0, cpus[world.rank])
    library = MPI.Get_library_version().splitlines()[0].strip(" \0")
    answers = Answers(MPIMember(world, MPI.IN_PLACE, library))
    if world.rank == 0:
        serve_apart(library, lambda question: _led(world, answers, question))
        _tell(world, None)
        return
    while (question := _told(world)) is not None:
        world.gather(answers(question))


def _led(world: Any, answers: Answers, question: Mapping[str, Any]) -> dict[str, Any]:
    _tell(world, question)
    found: list[dict[str, Any]] = world.gather(answers(question))
    if "begin" not in found[0]:
        return found[0]
    return {
        "begin": min(each["begin"] for each in found),
        "end": max(each["end"] for each in found),
    }


def _tell(world: Any, what: Mapping[str, Any] | None) -> None:
    for rank in range(1, world.size):
        world.send(what, rank)


def _told(world: Any) -> Any:
    while not world.iprobe(0):
        time.sleep(_NAP_SECONDS)
    return world.recv(source=0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
