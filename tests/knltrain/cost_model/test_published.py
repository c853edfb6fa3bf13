"""Published measurements."""

from __future__ import annotations

from knltrain.cost_model.published import KNL_ALL_REDUCE, SC17_NODES, SC17_ROWS
from knltrain.network.zoo.networks import network_named


def test_all_reduces_take_longer_with_bytes_and_nodes() -> None:
    sizes = sorted({size for size, _ in KNL_ALL_REDUCE})
    nodes = sorted({ranks for _, ranks in KNL_ALL_REDUCE})
    assert len(KNL_ALL_REDUCE) == len(sizes) * len(nodes) == 25
    for size in sizes:
        row = [KNL_ALL_REDUCE[size, ranks] for ranks in nodes]
        assert row == sorted(row)


def test_bytes_are_those_of_the_networks() -> None:
    for row in SC17_ROWS:
        parameters = network_named(row.network).parameters
        assert row.parameter_bytes == 4 * sum(each.size for each in parameters)
        assert len(row.seconds) == len(SC17_NODES)
