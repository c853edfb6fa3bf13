from __future__ import annotations

import json
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from knltrain.communication.oneccl import library as oneccl
from knltrain.errors import CollectiveError, ExchangeTimeout
from knltrain.torch_distributed.ccl import rendezvous
from knltrain.torch_distributed.ccl.rendezvous import create_process_group
from knltrain.torch_distributed.store import boot_id

WRITTEN = {"boot": "a", "addresses": ["127.0.0.1"], "port": 1, "token": "b", "id": "ff"}


def options(store: dist.Store, rank: int, ranks: int) -> Any:
    return SimpleNamespace(
        store=store,
        group_rank=rank,
        group_size=ranks,
        timeout=timedelta(seconds=0.3),
        global_ranks_in_group=[],
    )


def test_oneccl_that_is_not_there_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oneccl, "PACKAGE", "no-such-package")
    monkeypatch.setattr(rendezvous, "library", oneccl.library.__wrapped__)
    with pytest.raises(CollectiveError, match=r"pip install 'knltrain\[oneccl\]'"):
        create_process_group(options(dist.HashStore(), 0, 2), None)


def test_rank_that_does_not_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "library", lambda: None)
    monkeypatch.setattr(rendezvous, "unique_id", lambda: b"x")
    with pytest.raises(ExchangeTimeout, match=r"0\.3 s in vain for rank 1 of a new group"):
        create_process_group(options(dist.HashStore(), 0, 2), None)
    with pytest.raises(ExchangeTimeout, match="in vain for the first rank"):
        create_process_group(options(dist.HashStore(), 1, 2), None)


def test_oneccl_may_take_longer_than_ranks_may_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(rank=0, ranks=1)

    def slow(*_: Any) -> Any:
        time.sleep(0.6)
        return made

    monkeypatch.setattr(rendezvous, "library", lambda: None)
    monkeypatch.setattr(rendezvous, "unique_id", lambda: b"x")
    monkeypatch.setattr(rendezvous, "Communicator", slow)
    create_process_group(options(dist.HashStore(), 0, 1), None).shutdown()


def test_address_of_an_earlier_group_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "library", lambda: None)
    store = dist.HashStore()
    said = {
        "boot": boot_id(),
        "addresses": ["127.0.0.1"],
        "port": 1,
        "token": "",
        "id": "",
    }
    store.set("ccl", json.dumps(said))
    with pytest.raises(ExchangeTimeout, match=r"0\.3 s in vain: .* not answer at 127\.0\.0\.1:1"):
        create_process_group(options(store, 1, 2), None)


def test_addresses_that_lead_nowhere_from_here_are_left_out() -> None:
    addresses = ["127.0.0.1", "10.0.0.1"]
    there = {"boot": "another", "addresses": addresses}
    here = {"boot": boot_id(), "addresses": addresses[::-1]}
    assert rendezvous._reachable(there) == ["10.0.0.1"]
    assert rendezvous._reachable(here) == addresses
    alone = {"boot": "another", "addresses": ["127.0.0.1"]}
    with pytest.raises(CollectiveError, match=r"reached at 127\.0\.0\.1 alone: .* MASTER_ADDR"):
        rendezvous._reachable(alone)


def test_the_programs_store_tells_the_way() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    assert rendezvous._host_of(dist.PrefixStore("a", dist.PrefixStore("b", store))) == "127.0.0.1"
    assert rendezvous._host_of(dist.HashStore()) is None


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "",
        "{}",
        json.dumps({**WRITTEN, "port": "1"}),
        json.dumps({**WRITTEN, "port": 2**16}),
        json.dumps({**WRITTEN, "addresses": [1]}),
        json.dumps({**WRITTEN, "id": "xyz"}),
        json.dumps({**WRITTEN, "token": None}),
    ],
    ids=lambda text: text[:12],
)
def test_what_no_first_rank_has_written_is_told(text: str) -> None:
    assert rendezvous._said(json.dumps(WRITTEN)) == WRITTEN
    with pytest.raises(CollectiveError, match="the store of the program holds what no first rank"):
        rendezvous._said(text)
