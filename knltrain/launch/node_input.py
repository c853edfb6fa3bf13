"""What a node's workers and data pools share besides the run's memory: the data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, final

from knltrain.data.dataset import Dataset
from knltrain.input.node_data import NodeData, is_held
from knltrain.launch.node_share import NodeShare

if TYPE_CHECKING:
    from knltrain.launch.distributed_data import NodePart
    from knltrain.launch.job_peers import JobPeers

_PAUSE_SECONDS: Final = 0.01


@final
class NodeInput:
    """A node's copy of the data set, from the check of the run to its end.

    The first share of a node makes it, the others get it from there. There is none of data whose
    pictures are mapped from files, or decoded: each process opens these.

    With `distributes`, and on several nodes, it is a copy of the node's part alone, whatever the
    pictures, which is served to the other nodes. It is read once all nodes have met.
    """

    def __init__(self, node_share: NodeShare, distributes: bool = False) -> None:
        self._makes = node_share.share == 0
        self._distributes = distributes and node_share.nodes > 1
        self._is_held = False
        self._nodes: tuple[int, ...] = ()
        self._data: NodeData | None = None
        self._read: Dataset | None = None
        self._part: NodePart | None = None
        self._is_needed: Callable[[], bool] = lambda: False

    def keep(self, nodes: tuple[int, ...], dataset: Dataset) -> None:
        """Take the data set that was read, spread over these NUMA nodes."""
        self._is_held, self._nodes = self._distributes or is_held(dataset), nodes
        if not (self._is_held and self._makes):
            return
        if self._distributes:
            self._read = dataset
        else:
            self._data = NodeData.copy_of(dataset, nodes)

    def share(
        self, node_share: NodeShare, job_peers: JobPeers | None, read: Callable[[], Dataset]
    ) -> list[Callable[[], None]]:
        """Hand the copy to the node's other shares, or get it; returns what is to be closed.

        `node_share` is what all have agreed on; `read` reads the data set once more if this process
        turns out to be the first share.
        """
        if not self._is_held or (node_share.shares == 1 and not self._distributes):
            return []
        assert job_peers is not None
        closing: list[Callable[[], None]] = []
        if self._distributes:
            from knltrain.launch.distributed_data import NodePart

            dataset = None if node_share.share else self._read or read()
            self._read = None
            self._part = NodePart(dataset, self._nodes, job_peers)
            self._data = self._part.data
            closing.append(self._part.close)
        elif node_share.share:
            self.close()
            self._data = NodeData(*job_peers.memory_fds(1, "data"))
        elif self._data is None:
            self._data = NodeData.copy_of(read(), self._nodes)
        if node_share.share == 0 and node_share.shares > 1:
            assert self._data is not None
            (keeper,) = job_peers.doorkeepers((self._data.fd,), "data")
            others = node_share.shares - 1
            self._is_needed = lambda: keeper.served < others and job_peers.lost is None
            closing.append(keeper.close)
        return closing

    @property
    def fd(self) -> int | None:
        """The file descriptor for workers; None where they open the data set themselves."""
        return None if self._data is None else self._data.fd

    @property
    def part(self) -> Mapping[str, int | float | str] | None:
        """What this process has read of the node's part; None if it has read none."""
        return None if self._part is None else self._part.read

    def await_others(self) -> None:
        """Keep the copy until this node's other shares have it, and the part for other nodes."""
        while self._is_needed():
            time.sleep(_PAUSE_SECONDS)
        if self._part is not None:
            self._part.await_others()

    def close(self) -> None:
        """Close the file."""
        if self._data is not None:
            self._data.close()
        self._data = self._read = None

    def __enter__(self) -> NodeInput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
