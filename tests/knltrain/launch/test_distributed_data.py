"""A node's part of a distributed data set: read once all have met, served until all have ended."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

from knltrain.data.dataset import Dataset
from knltrain.errors import DataError, PeerLost
from knltrain.input.distributed import parts
from knltrain.input.distributed.server import PartServer
from knltrain.launch import distributed_data
from knltrain.launch import job_peers as job_peers_module
from knltrain.launch.distributed_data import told_of_part, way_of_pictures
from knltrain.launch.job_peers import JobPeers
from knltrain.launch.node_input import NodeInput
from knltrain.launch.node_share import ALONE

from ..input.conftest import dataset_of
from .test_job_peers import config, together


@contextmanager
def opened(job_peers: JobPeers, dataset: Dataset, distributes: bool = True) -> Iterator[NodeInput]:
    with NodeInput(job_peers.node_share, distributes) as input_, ExitStack() as closing:
        input_.keep((), dataset)
        for close in input_.share(job_peers.node_share, job_peers, lambda: dataset):
            closing.callback(close)
        yield input_


def images(input_: NodeInput) -> Any:
    assert input_._data is not None
    source = input_._data.dataset().train.source
    return np.stack(list(source.pictures_of(np.arange(len(source)))))


@pytest.mark.parametrize("nodes", [("a", "b"), ("a", "a", "b", "b")])
def test_all_processes_of_all_nodes_have_all_pictures(nodes: tuple[str, ...]) -> None:
    dataset = dataset_of(9, 4)
    expected = np.stack([dataset.train.source.picture(row) for row in range(9)])

    def work(job_peers: JobPeers) -> Any:
        with opened(job_peers, dataset) as input_:
            found = images(input_)
            input_.await_others()
            return found, input_.part

    found = together(work, nodes=nodes)
    for pictures, _ in found:
        np.testing.assert_array_equal(pictures, expected)
    told = [told_of_part({**part, "others_by": "TCP"}) for _, part in found if part is not None]
    assert [
        re.sub(r"read in [\d.]+ s; other nodes' are read by TCP", "", note) for note in told
    ] == [
        "data: node 0 of 2 holds 6 of 13 images: 540 B, ",
        "data: node 1 of 2 holds 7 of 13 images: 630 B, ",
    ]


@pytest.mark.parametrize("distributes", [True, False])
def test_the_first_of_a_node_stays_until_the_others_have_the_data(
    monkeypatch: pytest.MonkeyPatch, distributes: bool
) -> None:
    """One that is ready at once, while another is slow to ask for the memory."""
    memory_fds = JobPeers.memory_fds

    def late(self: JobPeers, count: int, what: str = "memory") -> tuple[int, ...]:
        time.sleep(0 if self.node_share.node else 0.3)
        return memory_fds(self, count, what)

    monkeypatch.setattr(JobPeers, "memory_fds", late)
    monkeypatch.setattr(JobPeers, "_patience_seconds", 10.0)  # or it would ask for ever
    dataset = dataset_of(9, 4)

    def work(job_peers: JobPeers) -> None:
        with opened(job_peers, dataset, distributes) as input_:
            input_.await_others()

    nodes = ("a", "a", "b", "b") if distributes else ("a", "a")
    assert together(work, nodes=nodes) == [None] * len(nodes)


def test_a_part_is_served_until_all_have_ended() -> None:
    dataset, fetched = dataset_of(9, 4), threading.Event()

    def work(job_peers: JobPeers) -> Any:
        with opened(job_peers, dataset) as input_:
            if job_peers.node_share.node:
                waiting = threading.Thread(target=fetched.wait, args=(0.2,))
                waiting.start()
                waiting.join()
                images(input_)
                fetched.set()
            input_.await_others()
            assert fetched.is_set()

    assert together(work) == [None, None]


def test_who_is_turned_away_once_still_stays_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a proof that comes late on a busy node: else the other node would wait forever."""
    meet, await_others, met = PartServer._meet, PartServer.await_others, set[PartServer]()

    def late_once(self: PartServer, connection: socket.socket) -> None:
        meet(self, connection)
        if self not in met:
            met.add(self)
            raise EOFError

    def bounded(self: PartServer, others: int, is_vain: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        await_others(self, others, lambda: is_vain() or time.monotonic() > deadline)
        assert self._left == others

    monkeypatch.setattr(PartServer, "_meet", late_once)
    monkeypatch.setattr(PartServer, "await_others", bounded)

    def work(job_peers: JobPeers) -> Any:
        with opened(job_peers, dataset_of(9, 4)) as input_:
            input_.await_others()

    assert together(work) == [None, None]
    assert len(met) == 2


def test_the_end_of_others_is_not_awaited_once_one_is_lost() -> None:
    def work(job_peers: JobPeers) -> Any:
        with opened(job_peers, dataset_of(9, 4)) as input_:
            if job_peers.node_share.node:
                raise DataError("a disk is gone")
            input_.await_others()
            return job_peers.lost

    lost, error = together(work)
    assert isinstance(lost, PeerLost) and isinstance(error, DataError)


def test_a_node_without_room_ends_the_run_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "available_bytes", lambda: 1000)

    def work(job_peers: JobPeers) -> Any:
        with opened(job_peers, dataset_of(9, 4)):
            raise AssertionError("there was room")

    assert all("each of 2 nodes holds" in str(error) for error in together(work))


@pytest.mark.slow
@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize("nodes", [("a", "b"), ("a", "a", "b", "b")])
def test_nodes_wait_for_one_that_reads_for_longer_than_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, slow: int, nodes: tuple[str, ...]
) -> None:
    monkeypatch.setattr(job_peers_module, "LEAST_PATIENCE_SECONDS", 1.0)
    chosen = config(exchange={"timeout_seconds": 1.0})
    read = distributed_data.read_parts

    def reading(dataset: Dataset, node: int, count: int) -> Any:
        time.sleep(2.5 if node == slow else 0)
        return read(dataset, node, count)

    monkeypatch.setattr(distributed_data, "read_parts", reading)

    def work(job_peers: JobPeers) -> Any:
        with opened(job_peers, dataset_of(9, 4)) as input_:
            input_.await_others()
            return job_peers.lost

    assert together(work, *[chosen] * len(nodes), nodes=nodes) == [None] * len(nodes)


def test_on_one_node_it_is_the_whole() -> None:
    with NodeInput(ALONE, distributes=True) as input_:
        input_.keep((), dataset_of(9, 4))
        assert input_.share(ALONE, None, lambda: dataset_of(9, 4)) == []
        assert images(input_).shape == (9, 6, 5, 3)
        input_.await_others()


@pytest.mark.parametrize(
    ("way", "method", "workers", "data_cores", "told"),
    [
        ("gloo", "sync_sgd", 1, 0, "TCP"),
        ("mpi", "sync_sgd", 1, 0, "MPI"),
        ("mpi", "sync_sgd", 1, 1, "TCP"),
        ("mpi", "caffegpi", 2, 0, "MPI"),
        ("mpi", "sync_sgd", 2, 0, "MPI where a worker is a rank of it, else TCP"),
    ],
)
def test_what_carries_pictures_is_told(
    way: str, method: str, workers: int, data_cores: int, told: str
) -> None:
    chosen = config(
        nodes=2,
        workers=workers,
        exchange={"between_nodes": way, "method": method},
        placement={"data_cores": data_cores},
    )
    assert way_of_pictures(chosen) == told
