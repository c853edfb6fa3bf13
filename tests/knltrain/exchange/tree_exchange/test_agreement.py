"""Ranks that mean different things are found out before any of them writes."""

import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import CollectiveError, ExchangeTimeout
from knltrain.exchange.tree_exchange.agreement import agree

from ...communication.gaspi.conftest import together


def answers(described, timeout_seconds=10.0):
    """What each rank hears; one that is None does not say anything."""

    def work(space):
        text = described[space.rank]
        try:
            if text is None:
                space.create_segment(0, space.size)
            else:
                agree(space, text, timeout_seconds)
        except (CollectiveError, ExchangeTimeout) as error:
            return error
        finally:
            space.close()

    return together([AddressSpace(ranks) for ranks in thread_ranks(len(described))], work)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_ranks_that_mean_the_same_go_on(ranks):
    assert answers(["layers a"] * ranks) == [None] * ranks


def test_ranks_that_mean_something_else_are_named():
    heard = answers(["a", "b", "a", "b"])
    assert str(heard[0]).startswith("rank 0 has a, and rank 1, rank 3 something else")
    assert str(heard[1]).startswith("rank 1 has b, and rank 0, rank 2 something else")


def test_a_rank_that_says_nothing_is_named():
    heard = answers(["a", None, "a"], timeout_seconds=1.0)
    for rank in (0, 2):
        assert isinstance(heard[rank], ExchangeTimeout)
        assert f"rank {rank}: waited 1 s in vain for rank 1, to say" in str(heard[rank])
