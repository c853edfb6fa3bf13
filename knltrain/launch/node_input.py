"""What a node's workers and data pools share besides the run's memory: the data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from knltrain.data.dataset import Dataset
from knltrain.input.node_data import NodeData, is_held
from knltrain.launch.node_share import NodeShare

if TYPE_CHECKING:
    from knltrain.launch.job_peers import JobPeers


@final
class NodeInput:
    """A node's copy of the data set, from the check of the run to its end.

    The first share of a node makes it, the others get it from there. There is none of data whose
    pictures are mapped from files, or decoded: each process opens these.
    """

    def __init__(self, node_share: NodeShare) -> None:
        self._makes = node_share.share == 0
        self._is_held = False
        self._nodes: tuple[int, ...] = ()
        self._data: NodeData | None = None

    def keep(self, nodes: tuple[int, ...], dataset: Dataset) -> None:
        """Take the data set that was read, spread over these NUMA nodes."""
        self._is_held, self._nodes = is_held(dataset), nodes
        if self._is_held and self._makes:
            self._data = NodeData.copy_of(dataset, nodes)

    def share(
        self, node_share: NodeShare, job_peers: JobPeers | None, read: Callable[[], Dataset]
    ) -> list[Callable[[], None]]:
        """Hand the copy to the node's other shares, or get it; returns what is to be closed.

        `node_share` is what all have agreed on; `read` reads the data set once more if this process
        turns out to be the first share.
        """
        if not self._is_held or node_share.shares == 1:
            return []
        assert job_peers is not None
        if node_share.share:
            self.close()
            self._data = NodeData(*job_peers.memory_fds(1, "data"))
            return []
        if self._data is None:
            self._data = NodeData.copy_of(read(), self._nodes)
        return [each.close for each in job_peers.doorkeepers((self._data.fd,), "data")]

    @property
    def fd(self) -> int | None:
        """The file descriptor for workers; None where they open the data set themselves."""
        return None if self._data is None else self._data.fd

    def close(self) -> None:
        """Close the file."""
        if self._data is not None:
            self._data.close()
        self._data = None

    def __enter__(self) -> NodeInput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
