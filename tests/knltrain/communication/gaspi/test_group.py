"""Groups of ranks that are threads; what all kinds of ranks promise of them is in `contract`."""

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import ExchangeTimeout

from .conftest import together


def test_sums_are_in_the_order_of_the_group_to_the_same_bits():
    values = np.float32([1e8, 1.0, -1e8])

    def work(space):
        group = space.group([2, 0, 1])
        assert group.members == (2, 0, 1)
        total = group.all_reduce(values[[space.rank]])
        space.close()
        return float(total[0])

    spaces = [AddressSpace(ranks, timeout_seconds=10) for ranks in thread_ranks(3)]
    expected = float(np.float32(np.float32(values[2] + values[0]) + values[1]))
    assert together(spaces, work) == [expected] * 3


def test_who_is_late_is_named_by_its_rank_in_the_address_space():
    def work(space):
        if space.rank == 0:
            return
        group = space.group([1, 2])
        if space.rank == 1:
            with pytest.raises(
                ExchangeTimeout, match=r"rank 1: waited 0.05 s .* rank 2, for a barrier of a group"
            ):
                group.barrier(0.05)

    together([AddressSpace(ranks, timeout_seconds=10) for ranks in thread_ranks(3)], work)
