from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from knltrain.errors import ExchangeTimeout, SegmentError
from knltrain.torch_distributed.knlshm.rendezvous import create_process_group
from knltrain.torch_distributed.store import boot_id


def options(store: dist.Store, rank: int, ranks: int) -> Any:
    return SimpleNamespace(
        store=store,
        group_rank=rank,
        group_size=ranks,
        timeout=timedelta(seconds=0.3),
        global_ranks_in_group=[],
    )


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
    store.set("knlshm", f"{boot_id()} knltrain-memory-1")
    with pytest.raises(SegmentError, match="no shared memory at address"):
        create_process_group(options(store, 1, 2), None)
