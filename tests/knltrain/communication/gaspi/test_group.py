"""Groups of ranks that are threads; what all kinds of ranks promise of them is in `contract`."""

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import CollectiveError, ExchangeTimeout

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
                ExchangeTimeout, match=r"rank 1: waited 0.05 s .* rank 2 in barrier of group"
            ):
                group.barrier(0.05)

    together([AddressSpace(ranks, timeout_seconds=10) for ranks in thread_ranks(3)], work)


@pytest.mark.parametrize(
    ("values", "operation", "said"),
    [
        (np.ones(2), "prod", "operation 'prod': expected one of 'max', 'min', 'sum'"),
        (np.ones(2), ["sum"], r"operation '\['sum'\]': expected one of"),
        (np.ones(2, bool), "sum", "all_reduce of bool: expected an array of integers or floats"),
        (np.ones(2, complex), "max", "all_reduce of complex128: expected"),
        (np.array(["a"], object), "min", "all_reduce of object: expected"),
        ([1.0], "sum", "all_reduce of list: expected"),
        (np.ones((2, 1)), "sum", r"shape \(2, 1\): expected \(k,\)"),
    ],
)
def test_what_cannot_be_reduced_is_refused_at_once_by_one_rank(values, operation, said):
    space = AddressSpace(thread_ranks(1)[0], timeout_seconds=10)
    group = space.group([0])
    with pytest.raises(CollectiveError, match=said):
        group.all_reduce(values, operation)
    space.close()
