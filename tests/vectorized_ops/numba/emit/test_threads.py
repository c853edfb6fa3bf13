from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vectorized_ops.numba.emit.threads import part


@given(number=st.integers(0, 10_000), threads=st.integers(1, 300))
def test_shares_are_neighbours_and_differ_by_one_at_most(number: int, threads: int) -> None:
    begins = [part(number, thread, threads) for thread in range(threads + 1)]
    assert (begins[0], begins[-1]) == (0, number)
    shares = {end - begin for begin, end in pairwise(begins)}
    assert shares <= {number // threads, -(-number // threads)}
