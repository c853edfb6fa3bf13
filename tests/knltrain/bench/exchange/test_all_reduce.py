"""Vectors that a library adds up."""

import numpy as np
import pytest

from knltrain.bench.exchange.all_reduce import ALL_REDUCE, ReducedVectors
from knltrain.bench.exchange.member import WrongResult


def held(factors):
    """What rank 1 of 3 holds, where the sum of 1, 2 and 3 is three times its own 2."""
    vectors = [np.zeros(4, np.float32) for _ in factors]
    reduce = [
        lambda vector=vector, factor=factor: np.multiply(vector, factor, out=vector)
        for vector, factor in zip(vectors, factors, strict=True)
    ]
    met = []
    return ReducedVectors(1, 3, vectors, reduce, lambda: met.append(True)), vectors, met


def test_one_operation_reduces_each_vector_and_leaves_zeros_zero():
    found, vectors, met = held([3, 3])
    found.check()
    assert all(np.all(vector == 0) for vector in vectors)
    vectors[0][:], vectors[1][:] = 1, 2
    found.operations[ALL_REDUCE]()
    assert (vectors[0][0], vectors[1][0]) == (3, 6)
    found.meet()
    assert met == [True]


def test_a_sum_that_is_wrong_is_refused():
    with pytest.raises(WrongResult, match=r"all_reduce: 4 of 4 .* 4.0 instead of 6.0"):
        held([3, 2])[0].check()
