"""What every kind of ranks promises, kept by threads; `test_mpi_ranks` has those of MPI."""

import pytest

from knltrain.communication.gaspi import Extent, thread_ranks

from .conftest import together
from .contract import CONTRACT


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_threads_keep_the_contract(promise, size):
    together(thread_ranks(size, seed=size), promise)


def test_extents_say_what_each_rank_has():
    first, second = thread_ranks(2)
    memories = together(
        [first, second], lambda ranks: ranks.allocate([Extent(8, 1), Extent(16, 2)])
    )
    for memory in memories:
        assert memory.extents == [Extent(8, 1), Extent(16, 2)]
