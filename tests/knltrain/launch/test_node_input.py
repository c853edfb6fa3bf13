"""A node's copy of the data set, as the processes that start workers make it and hand it over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.data.dataset import Dataset
from knltrain.launch.node_input import NodeInput
from knltrain.launch.node_share import ALONE, NodeShare

from ..input.conftest import dataset_of


class Doors:
    """In place of a company: what its first share opens."""

    def __init__(self) -> None:
        self.keepers: list[DescriptorServer] = []

    def doorkeepers(self, fds: tuple[int, ...], what: str) -> list[DescriptorServer]:
        assert what == "data"
        self.keepers = [DescriptorServer(fd) for fd in fds]
        return self.keepers

    def memory_fds(self, count: int, what: str) -> tuple[int, ...]:
        assert (count, what) == (1, "data")
        return tuple(fd_behind(keeper.address) for keeper in self.keepers)


def never() -> Dataset:
    raise AssertionError("read again")


@pytest.fixture
def dataset() -> Dataset:
    return dataset_of(8, 4)


@pytest.fixture
def open_() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_process_that_starts_all_workers_keeps_one(dataset: Dataset, open_: ExitStack) -> None:
    data = open_.enter_context(NodeInput(ALONE))
    assert data.fd is None
    data.keep((), dataset)
    assert data.share(ALONE, None, never) == []
    assert data.fd is not None
    fd = data.fd
    data.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_shares_of_a_node_have_the_same(dataset: Dataset, open_: ExitStack) -> None:
    doors: Any = Doors()
    shares = [NodeShare(0, 1, share, 2) for share in range(2)]
    first, other = (open_.enter_context(NodeInput(share)) for share in shares)
    for data in (first, other):
        data.keep((), dataset)
    assert other.fd is None
    for close in first.share(shares[0], doors, never):
        open_.callback(close)
    other.share(shares[1], doors, never)
    assert first.fd is not None and other.fd is not None
    assert os.fstat(first.fd).st_ino == os.fstat(other.fd).st_ino


def test_tasks_may_turn_out_to_be_other_shares(dataset: Dataset, open_: ExitStack) -> None:
    doors: Any = Doors()
    shares = [NodeShare(0, 1, share, 2) for share in range(2)]
    first, other = (open_.enter_context(NodeInput(share)) for share in reversed(shares))
    for data in (first, other):
        data.keep((), dataset)
    for close in first.share(shares[0], doors, lambda: dataset):
        open_.callback(close)
    other.share(shares[1], doors, never)
    assert first.fd is not None and other.fd is not None
    assert os.fstat(first.fd).st_ino == os.fstat(other.fd).st_ino


def test_pictures_that_are_not_in_memory_are_not_copied(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dataset.test.source
    monkeypatch.setattr(type(source), "held_bytes", property(lambda self: 0))
    data = NodeInput(ALONE)
    data.keep((), dataset)
    assert data.fd is None
    assert data.share(NodeShare(0, 1, 1, 2), None, never) == []


def test_the_copy_is_that_of_what_was_read(dataset: Dataset, open_: ExitStack) -> None:
    data = open_.enter_context(NodeInput(ALONE))
    data.keep((), dataset)
    assert data._data is not None
    np.testing.assert_array_equal(data._data.dataset().train.labels, dataset.train.labels)
