"""A node's part of a data set that lies in the memories of all nodes: read, held and served."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Final, final

from affinity.numbers import format_bytes
from knltrain.assembly import strategy_of
from knltrain.config import RunConfig
from knltrain.data.dataset import Dataset
from knltrain.errors import PeerLost
from knltrain.input.distributed.client import Doors, PartClient
from knltrain.input.distributed.parts import Part, check_room, part_bytes
from knltrain.input.distributed.server import PartServer
from knltrain.input.distributed.sources import distributed, read_parts, records_of
from knltrain.input.node_data import NodeData
from knltrain.launch.job_peers import JobPeers

_PAUSE_SECONDS: Final = 0.05


@final
class NodePart:
    """This process's share in its node's part of a data set, of all processes that start workers.

    The first share of a node reads the part of `dataset`, copies it to the memory of these NUMA
    nodes and serves it; the others give no data set. `data` is for this node's processes; `read`
    tells how much was read, and how fast. Collective: once all have read, they tell each other
    where their doors are. One may read for longer than another, while it shows life. Raises
    DataError or SegmentError where there is no room, and what `JobPeers` raises.
    """

    def __init__(
        self, dataset: Dataset | None, numa_nodes: tuple[int, ...], job_peers: JobPeers
    ) -> None:
        self._job_peers, self._share = job_peers, job_peers.node_share
        self._server: PartServer | None = None
        self.read: Mapping[str, int | float | str] | None = None
        job_peers.show_life(job_peers.limit_seconds)
        parts = None if dataset is None else self._read(dataset)
        with ExitStack() as failing:
            listener = None if dataset is None else failing.enter_context(job_peers.door())
            addresses, key = job_peers.addresses(listener), job_peers.key_for("data")
            self._doors = Doors(self._share.node, addresses, key, job_peers.limit_seconds)
            if dataset is None or parts is None or listener is None:
                self.data = NodeData(*job_peers.memory_fds(1, "data"))
            else:
                held = distributed(dataset, parts, self._doors)
                self.data = NodeData.copy_of(held, numa_nodes)
                self._server = self._serve(listener)
            failing.pop_all()
        self._staying: list[PartClient] = []
        self._is_done, self._lock = False, threading.Lock()
        self._stays = [
            threading.Thread(target=self._stay, args=(other,), name="data-stay", daemon=True)
            for other in self._other_nodes
        ]
        for thread in self._stays:
            thread.start()

    def await_others(self) -> None:
        """Tell other nodes that this process needs their parts no more; wait until all say so.

        Or until one of them is lost.
        """
        for thread in self._stays:  # who has not said that it stays cannot leave
            thread.join()
        self._leave()
        if self._server is not None:
            others = len(self._other_nodes) * self._share.shares
            self._server.await_others(others, lambda: self._job_peers.lost is not None)

    def close(self) -> None:
        """End the service."""
        self._leave()
        if self._server is not None:
            self._server.close()

    @property
    def _other_nodes(self) -> list[int]:
        return [each for each in range(self._share.nodes) if each != self._share.node]

    def _read(self, dataset: Dataset) -> tuple[Part, Part]:
        node, nodes = self._share.node, self._share.nodes
        sources = dataset.train.source, dataset.test.source
        check_room(sum(part_bytes(each, nodes) for each in sources), nodes)
        begin = time.monotonic()
        parts = read_parts(dataset, node, nodes)
        seconds = time.monotonic() - begin
        self.read = {
            "node": node,
            "nodes": nodes,
            "images": sum(map(len, parts)),
            "all_images": sum(map(len, sources)),
            "bytes": sum(part.content.nbytes for part in parts),
            "read_seconds": round(seconds, 3),
        }
        return parts

    def _serve(self, listener: socket.socket) -> PartServer:
        held = self.data.dataset()
        found = (records_of(half.source) for half in (held.train, held.test))
        parts = [records.part for records in found if records is not None]
        return PartServer(listener, self._doors.key, parts, self._share.nodes)

    def _stay(self, other: int) -> None:
        """Say it once, however often a busy door turns this away: the other node waits for it."""
        while self._job_peers.lost is None and not self._is_done:
            with suppress(PeerLost):  # which the workers will tell
                client = PartClient(self._doors, other)
                client.stay()
                with self._lock:
                    self._staying.append(client)
                    if self._is_done:
                        client.close()
                return
            time.sleep(_PAUSE_SECONDS)

    def _leave(self) -> None:
        with self._lock:
            self._is_done = True
            for client in self._staying:
                client.close()


def way_of_pictures(config: RunConfig) -> str:
    """What carries pictures from node to node: workers that are ranks of MPI read them by it."""
    if config.exchange.between_nodes != "mpi" or config.placement.data_cores:
        return "TCP"
    if config.workers == 1 or strategy_of(config).is_one_mpi_job:
        return "MPI"
    return "MPI where a worker is a rank of it, else TCP"


def told_of_part(read: Mapping[str, int | float | str]) -> str:
    """A line about a node's part for the user."""
    return (
        f"data: node {read['node']} of {read['nodes']} holds {read['images']:,} of "
        f"{read['all_images']:,} images: {format_bytes(int(read['bytes']))}, read in "
        f"{read['read_seconds']:.2f} s; other nodes' are read by {read['others_by']}"
    )
