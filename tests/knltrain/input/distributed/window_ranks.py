"""What ranks read of each other's parts: `mpiexec -n 3 python -m mpi4py -m` this module.

Ranks 0 and 1 are of node 0, rank 2 is of node 1.
"""

from __future__ import annotations

import threading

import numpy as np

from knltrain.communication.mpi.runtime import load_mpi
from knltrain.data.dataset import Dataset
from knltrain.input.distributed.client import Doors
from knltrain.input.distributed.records import DistributedRecords
from knltrain.input.distributed.sources import distributed, read_parts, records_of
from knltrain.input.distributed.window import PartWindow
from knltrain.input.node_data import NodeData
from tests.knltrain.input.conftest import dataset_of
from tests.knltrain.input.distributed.conftest import encoded_of

MPI = load_mpi()
NODE = MPI.COMM_WORLD.rank // 2
NOWHERE = ("127.0.0.1", 1)


def bytes_of(records: DistributedRecords, rows: list[int]) -> list[bytes]:
    return [bytes(each) for each in records.fetch(np.array(rows)).records]


def all_are_read(whole: Dataset) -> None:
    """By all ranks at once, two threads each, of both halves, from own memory and another's."""
    doors = Doors(NODE, (NOWHERE, NOWHERE), b"", 1.0)
    of_node = [distributed(whole, read_parts(whole, node, 2), doors) for node in range(2)]
    copy = NodeData.copy_of(of_node[NODE])
    held = copy.dataset()
    copy.close()
    halves = [(held.train.source, whole.train.source), (held.test.source, whole.test.source)]
    records = [found for source, _ in halves if (found := records_of(source)) is not None]
    parts, divisions = [each.part for each in records], [each.division for each in records]
    window = PartWindow(MPI, NODE, parts, divisions, 20.0, lambda: None)
    wrong: list[int] = []

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(20):
            for half, each in enumerate(records):
                rows = random.integers(0, each.division.images, 7).tolist()
                expected = [
                    bytes(other.part.record(row))
                    for row in rows
                    for other in [records_of(of[half]) for of in sources]
                    if other is not None and row in other.part
                ]
                wrong.extend(rows if bytes_of(each, rows) != expected else [])

    sources = [(node.train.source, node.test.source) for node in of_node]
    for each in records:
        each.window = window
    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    window.close()
    assert wrong == []


def main() -> None:
    raw = dataset_of(41, 10)
    all_are_read(raw)
    all_are_read(encoded_of(raw))
    all_are_read(dataset_of(41, 1))  # of which node 0 holds nothing
    if MPI.COMM_WORLD.rank == 0:
        print("all was read")


if __name__ == "__main__":
    main()
