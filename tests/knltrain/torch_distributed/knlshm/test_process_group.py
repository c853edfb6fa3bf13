from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.knlshm import KnlshmProcessGroup, create_process_group


@pytest.fixture
def alone() -> Iterator[KnlshmProcessGroup]:
    """A group of one rank."""
    options: Any = SimpleNamespace(
        store=dist.HashStore(),
        group_rank=0,
        group_size=1,
        timeout=timedelta(seconds=5),
        global_ranks_in_group=[],
    )
    group = create_process_group(options, None)
    yield group
    group.shutdown()


def test_group_of_one_works_and_ends(alone: KnlshmProcessGroup) -> None:
    tensor = torch.ones(3)
    reduced = dist.AllreduceOptions()
    alone.allreduce([tensor], reduced).wait()
    assert tensor.tolist() == [1, 1, 1]
    alone.shutdown()
    for attempt in (
        lambda: alone.allreduce([tensor], reduced),
        lambda: alone.send([tensor], 0),
    ):
        with pytest.raises(CollectiveError, match="was destroyed"):
            attempt()


def test_forked_process_neither_leaves_nor_ends_the_group(alone: KnlshmProcessGroup) -> None:
    alone.barrier().wait()  # in a thread, which the forked process has not
    child = os.fork()
    if not child:
        alone.shutdown()
        os._exit(0)
    os.waitpid(child, 0)
    alone.barrier().wait()
