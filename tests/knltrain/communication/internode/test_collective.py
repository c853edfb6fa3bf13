from __future__ import annotations

import numpy as np

from knltrain.communication.internode.collective import OneNode


def test_node_without_others_has_the_sums_already() -> None:
    alone = OneNode()
    values = np.arange(3, dtype=np.float32)
    for operation in (alone.all_reduce, alone.reduce, alone.broadcast):
        operation(values)
        assert values.tolist() == [0, 1, 2]
    numbers = np.array([1.5, 2.5])
    gathered = alone.gather(numbers)
    assert gathered.tolist() == [[1.5, 2.5]]
    gathered[:] = 0
    assert numbers.tolist() == [1.5, 2.5]
    given, found = np.arange(4, dtype=np.uint8).reshape(1, 4), np.zeros((1, 4), np.uint8)
    alone.all_gather(given[0], found)
    assert np.array_equal(found, given)
    found[:] = 0
    alone.all_to_all(given, found)
    assert np.array_equal(found, given)
    assert alone.residual.size == 0
    alone.close()
    assert (alone.node, alone.nodes) == (0, 1)
