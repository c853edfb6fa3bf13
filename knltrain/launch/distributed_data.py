"""A node's part of a data set that lies in the memories of all nodes: read, held and served."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import final

from affinity.sizes import format_bytes
from knltrain.data.dataset import Dataset
from knltrain.errors import PeerLost
from knltrain.input.distributed.client import Doors, PartClient
from knltrain.input.distributed.parts import check_room, part_bytes
from knltrain.input.distributed.server import PartServer
from knltrain.input.distributed.sources import distributed, read_parts, records_of
from knltrain.input.node_data import NodeData
from knltrain.launch.job_peers import JobPeers


@final
class NodePart:
    """This node's part of `dataset`, copied to the memory of these NUMA nodes, and served.

    `data` is for this node's processes; `told` is a line about the part for the user. Collective:
    all nodes tell each other where their doors are. Raises DataError or SegmentError where there is
    no room, and what `JobPeers` raises.
    """

    def __init__(self, dataset: Dataset, numa_nodes: tuple[int, ...], job_peers: JobPeers) -> None:
        self._job_peers = job_peers
        node, nodes = job_peers.node_share.node, job_peers.node_share.nodes
        listener = job_peers.door()
        try:
            addresses, key = job_peers.addresses(listener), job_peers.key_for("data")
            self._doors = Doors(node, addresses, key, job_peers.limit_seconds)
            sources = dataset.train.source, dataset.test.source
            check_room(sum(part_bytes(each, nodes) for each in sources), nodes)
            begin = time.monotonic()
            parts = read_parts(dataset, node, nodes)
            seconds = time.monotonic() - begin
            self.data = NodeData.copy_of(distributed(dataset, parts, self._doors), numa_nodes)
        except BaseException:
            listener.close()
            raise
        read = sum(part.content.nbytes for part in parts)
        images = sum(map(len, parts))
        self.told = (
            f"data: node {node} of {nodes} holds {images:,} of {sum(map(len, sources)):,} images: "
            f"{format_bytes(read)}, read in {seconds:.2f} s"
        )
        del parts
        held = self.data.dataset()
        found = (records_of(half.source) for half in (held.train, held.test))
        served = [records.part for records in found if records is not None]
        self._server = PartServer(listener, key, served, nodes)
        self._others = [other for other in range(nodes) if other != node]
        self._staying: list[PartClient] = []
        self._is_done, self._lock = False, threading.Lock()
        for other in self._others:
            threading.Thread(target=self._stay, args=(other,), daemon=True).start()

    def await_others(self) -> None:
        """Tell the others that this node needs their parts no more; wait until all have said so.

        Or until one of them is lost.
        """
        self._leave()
        self._server.await_others(len(self._others), lambda: self._job_peers.lost is not None)

    def close(self) -> None:
        """End the service."""
        self._leave()
        self._server.close()

    def _stay(self, other: int) -> None:
        with suppress(PeerLost):  # which the workers will tell
            client = PartClient(self._doors, other)
            client.stay()
            with self._lock:
                self._staying.append(client)
                if self._is_done:
                    client.close()

    def _leave(self) -> None:
        with self._lock:
            self._is_done = True
            for client in self._staying:
                client.close()
