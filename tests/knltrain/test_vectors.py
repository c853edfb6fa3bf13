"""Vectors on the host have no copies that could differ."""

from __future__ import annotations

from inspect import isabstract

import numpy as np

from knltrain.vectors import HOST, HostSpace, VectorSpace, aligned_zeros


def test_on_the_host_nothing_moves() -> None:
    vector = aligned_zeros(5)
    vector[:] = np.arange(5)
    for act in (HOST.follow, HOST.to_host, HOST.changed, HOST.send):
        act(vector, vector)
        act()
    with HOST.beside():
        assert vector[1] == 1
    assert vector.tolist() == [0, 1, 2, 3, 4]


def test_a_space_is_asked_for_all_of_it() -> None:
    assert isabstract(VectorSpace)
    assert isinstance(HOST, HostSpace)
