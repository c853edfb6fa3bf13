from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.ccl import CclProcessGroup
from knltrain.torch_distributed.ccl.collectives import OnecclCollectives
from knltrain.torch_distributed.ccl.gloo_collectives import GlooCollectives
from knltrain.torch_distributed.ccl.lane import Lane, Share
from knltrain.torch_distributed.order import Order


class Holding:
    """A communicator of one rank, whose calls may be held up."""

    rank, ranks = 0, 1

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def all_reduce(self, *_: Any) -> None:
        self.go_on.wait(30)


def _group(communicator: Any) -> CclProcessGroup:
    done = SimpleNamespace(wait=lambda: True)
    gloo: Any = SimpleNamespace(
        send=lambda tensors, rank, tag: (rank, tag), broadcast=lambda tensors, options: done
    )
    share = Share(Lane(), "the group of ranks 0")
    beside = GlooCollectives(gloo, 0, 1, 20, lambda: None)
    collectives = OnecclCollectives(communicator, gloo, 20, lambda: None)
    order = Order("beside")

    def leave() -> None:
        order.close(10)
        share.close(1)

    return CclProcessGroup(collectives, share, beside, order, gloo, leave)


def test_messages_go_by_gloo_until_the_group_is_destroyed() -> None:
    group = _group(Holding())
    assert group.getBackendName() == "ccl"
    assert group.send([torch.zeros(1)], 3, 4) == (3, 4)
    group.shutdown()
    for attempt in (lambda: group.send([torch.zeros(1)], 3), group.barrier):
        with pytest.raises(CollectiveError, match="was destroyed"):
            attempt()


def test_operations_under_way_fail_when_the_group_is_aborted() -> None:
    communicator = Holding()
    group = _group(communicator)
    tensor = torch.zeros(1)
    waiting = [group.allreduce([tensor], dist.AllreduceOptions()) for _ in range(2)]
    group.abort()
    for work in waiting:
        with pytest.raises(CollectiveError, match="was aborted by this rank"):
            work.wait()
    communicator.go_on.set()


def test_operations_of_other_threads_do_not_wait_for_their_turn_in_oneccl() -> None:
    communicator = Holding()
    group = _group(communicator)
    held = group.allreduce([torch.zeros(1)], dist.AllreduceOptions())
    found: list[bool] = []

    def ask() -> None:
        found.append(group.broadcast([torch.zeros(1)], dist.BroadcastOptions()).wait())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(30)
    assert found == [True]
    assert not held.is_completed()
    communicator.go_on.set()
    held.wait()
    group.shutdown()
