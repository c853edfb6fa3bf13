from __future__ import annotations

import os
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from knltrain.errors import CollectiveError, ExchangeTimeout, SegmentError
from knltrain.torch_distributed.knlshm import rendezvous
from knltrain.torch_distributed.knlshm.rendezvous import create_process_group


def options(store: dist.Store, rank: int, ranks: int) -> Any:
    return SimpleNamespace(
        store=store,
        group_rank=rank,
        group_size=ranks,
        timeout=timedelta(seconds=0.3),
        global_ranks_in_group=[],
    )


@pytest.mark.slow
def test_groups_of_some_ranks_work_at_the_same_time(start: Any) -> None:
    found = start("subgroups", 3).results()
    assert [all(one["many"]) for one in found] == [True] * 3
    assert torch.equal(found[0]["after"], found[2]["after"])


def test_groups_made_again_with_the_same_store_leave_nothing(common: Any) -> None:
    for found in (one["again"] for one in common):
        assert found["sums"] == [[2.0] * 3, [4.0] * 3, [6.0] * 3]
        assert found["held"] == [0, 0, 0]
        assert found["threads"] == ["MainThread"]


def test_rank_that_does_not_come_is_told() -> None:
    with pytest.raises(ExchangeTimeout, match=r"0\.3 s in vain for ranks \[1\] of a new group"):
        create_process_group(options(dist.HashStore(), 0, 2), None)
    with pytest.raises(ExchangeTimeout, match="in vain for the first rank"):
        create_process_group(options(dist.HashStore(), 1, 2), None)


def test_other_computers_and_addresses_of_nobody_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = dist.HashStore()
    store.set("knlshm", "another-boot-id knltrain-memory-1")
    with pytest.raises(SegmentError, match="several computers"):
        create_process_group(options(store, 1, 2), None)
    store.set("knlshm", f"{rendezvous._boot_id()} knltrain-memory-1")
    with pytest.raises(SegmentError, match="no shared memory at address"):
        create_process_group(options(store, 1, 2), None)


def test_group_of_one_works_and_ends() -> None:
    group = create_process_group(options(dist.HashStore(), 0, 1), None)
    tensor = torch.ones(3)
    reduced = dist.AllreduceOptions()
    group.allreduce([tensor], reduced).wait()
    assert tensor.tolist() == [1, 1, 1]
    group.shutdown()
    with pytest.raises(CollectiveError, match="was destroyed"):
        group.allreduce([tensor], reduced)


def test_forked_process_neither_leaves_nor_ends_the_group() -> None:
    group = create_process_group(options(dist.HashStore(), 0, 1), None)
    group.barrier().wait()  # in a thread, which the forked process has not
    child = os.fork()
    if not child:
        group.shutdown()
        os._exit(0)
    os.waitpid(child, 0)
    group.barrier().wait()
    group.shutdown()
