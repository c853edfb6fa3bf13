"""MPI as a contestant: rank 0 leads the others, by a world made of threads and queues."""

import os
import queue
import threading
from contextlib import ExitStack

from knltrain.bench.exchange import mpi_member
from knltrain.bench.exchange.contestants import started
from knltrain.bench.exchange.crew import assembled

from ...mpi_ranks import needs_mpi

CPUS = sorted(os.sched_getaffinity(0))


class World:
    """Two ranks' messages."""

    def __init__(self, rank, boxes, gathered):
        self.rank, self.size, self._boxes, self._gathered = rank, 2, boxes, gathered

    def send(self, what, rank):
        self._boxes[rank].put(what)

    def iprobe(self, source):
        return not self._boxes[self.rank].empty()

    def recv(self, source):
        return self._boxes[self.rank].get()

    def gather(self, what):
        if self.rank:
            self._gathered.put(what)
            return None
        return [what, self._gathered.get()]


def test_all_do_what_rank_0_is_asked_and_times_span_all():
    boxes, gathered = [queue.Queue(), queue.Queue()], queue.Queue()
    worlds = [World(rank, boxes, gathered) for rank in range(2)]
    answers = iter([{"begin": 3.0, "end": 9.0}, {}])

    def follow():
        while (question := mpi_member._told(worlds[1])) is not None:
            assert question["do"] in ("run", "drop")
            worlds[1].gather(next(answers))

    follower = threading.Thread(target=follow)
    follower.start()
    own = {"run": {"begin": 4.0, "end": 8.0}, "drop": {"dropped": True}}
    led = [
        mpi_member._led(worlds[0], lambda question: own[question["do"]], {"do": what})
        for what in ("run", "drop")
    ]
    mpi_member._tell(worlds[0], None)
    follower.join(timeout=10)
    assert not follower.is_alive()
    assert led == [{"begin": 3.0, "end": 9.0}, {"dropped": True}]


@needs_mpi
def test_two_ranks_reduce():
    with ExitStack() as stack:
        crew = assembled(stack, "mpi", started("mpi", [CPUS[:1], CPUS[-1:]]))
        crew.hold("a", [100, 700_000])
        assert 0 < crew.seconds("a", "all_reduce", 3) < 10
        assert "MPI" in crew.version
