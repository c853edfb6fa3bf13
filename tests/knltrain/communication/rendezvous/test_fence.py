from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from knltrain.communication.rendezvous import fence as module
from knltrain.communication.rendezvous.fence import Fence
from knltrain.communication.rendezvous.key_value_store import InMemoryStore
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost


def each(ranks, work, present=None):
    """What ``work(fence)`` returns or raises for each of the ranks, in threads."""
    store = InMemoryStore()

    def one(rank):
        try:
            return work(Fence(rank, ranks, store))
        except ExchangeTimeout as error:
            return error

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(one, range(ranks) if present is None else present))


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_all_ranks_get_the_words_of_all_in_their_order_again_and_again(ranks):
    def work(fence):
        return [fence.gather(f"{fence.rank} {n}", 20, "a test") for n in range(3)]

    expected = [[f"{rank} {n}" for rank in range(ranks)] for n in range(3)]
    assert each(ranks, work) == [expected] * ranks


def test_all_that_came_name_the_ranks_that_did_not(monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 5.0)
    found = each(5, lambda fence: fence.gather("", 0.1, "the start of MPI"), present=[0, 2, 4])
    assert [type(each) for each in found] == [ExchangeTimeout] * 3
    for error in found:
        assert "for rank 1, 3 of 5 at the start of MPI" in str(error)


def test_others_name_rank_0_if_it_is_the_one_that_does_not_come(monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.1)
    found = each(3, lambda fence: fence.gather("", 0.1, "a test"), present=[1, 2])
    assert ["for rank 0 of 3" in str(error) for error in found] == [True, True]


def test_what_the_check_raises_ends_the_waiting():
    def check():
        raise PeerLost("the run is being stopped")

    with pytest.raises(PeerLost, match="being stopped"):
        Fence(0, 2, InMemoryStore(), check).gather("", 20, "a test")


def test_rank_0_leaves_last():
    order = []

    def work(fence):
        fence.gather("", 20, "a test")
        left = fence.leave(20)
        order.append(fence.rank)
        return left

    assert each(3, work) == [True] * 3
    assert order[-1] == 0


def test_rank_0_does_not_wait_for_ever_for_others_to_leave():
    assert not Fence(0, 2, InMemoryStore()).leave(0.05)


@pytest.mark.parametrize(
    "told", ["[" * 20_000, "", "[]", "{}", '{"missing": 1}', '{"missing": [], "words": [1, 2]}']
)
def test_what_is_no_list_of_words_is_told(told):
    store = InMemoryStore()
    store.put("fence 1 all", told)
    with pytest.raises(CollectiveError, match="rank 0 has sent what is no list of texts"):
        Fence(1, 2, store).gather("a", 1, "a meeting")
