"""Sums over nodes by every wire format: the nodes are threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from knltrain.communication.internode.collective import NodeCollective, OneNode
from knltrain.communication.internode.wire.compressed import CompressedCollective

from ....exchange.thread_nodes import ThreadNodes
from .formats import FORMATS, KEEPING

SIZE = 5_003
NODES = [1, 2, 3, 4]


def vector(seed: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def on_nodes(
    nodes: int, name: str, work: Callable[[CompressedCollective], Any], size: int = SIZE
) -> list[Any]:
    between = ThreadNodes(nodes)

    def one(node: int) -> Any:
        made = CompressedCollective(between.collective(node), FORMATS[name](size), size)
        try:
            return work(made)
        except BaseException:
            between.barrier.abort()
            raise

    with ThreadPoolExecutor(nodes) as threads:
        return list(threads.map(one, range(nodes)))


def same_everywhere(found: list[np.ndarray]) -> bool:
    return all(np.array_equal(each.view(np.int32), found[0].view(np.int32)) for each in found)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [0, 1, 257, SIZE])
def test_sum_is_the_same_bits_everywhere_and_nothing_is_lost(
    name: str, nodes: int, size: int
) -> None:
    def work(collective: CompressedCollective) -> tuple[list[np.ndarray], np.ndarray]:
        sums = []
        for time in range(3):
            values = vector(10 * time + collective.node, size)
            collective.all_reduce(values)
            sums.append(values)
        return sums, collective.residual.copy()

    found = on_nodes(nodes, name, work, size)
    given = np.array(
        [[vector(10 * time + node, size) for node in range(nodes)] for time in range(3)]
    )
    for time in range(3):
        assert same_everywhere([sums[time] for sums, _ in found])
    if name in KEEPING:
        arrived = np.sum(found[0][0], axis=0) + sum(residual for _, residual in found)
        np.testing.assert_allclose(arrived, given.sum(axis=(0, 1)), atol=1e-5 * nodes)
    else:
        bound = 2.0**-8 * np.abs(given).sum(axis=1)
        assert np.all(np.abs(np.array(found[0][0]) - given.sum(axis=1)) <= 2 * bound)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", KEEPING)
def test_parts_keep_what_is_theirs(name: str, nodes: int) -> None:
    """Sums of parts: each finds again what it has left behind, at its own place."""
    cuts = [slice(0, 1_000), slice(1_000, 1_017), slice(1_017, SIZE)]

    def work(collective: CompressedCollective) -> tuple[np.ndarray, np.ndarray]:
        arrived = np.zeros(SIZE, np.float32)
        for time in range(4):
            for cut in cuts if time % 2 else reversed(cuts):
                values = vector(collective.node)[cut].copy()
                collective.all_reduce(values, cut.start)
                arrived[cut] += values
        return arrived, collective.residual.copy()

    found = on_nodes(nodes, name, work)
    assert same_everywhere([arrived for arrived, _ in found])
    total = found[0][0] + sum(residual for _, residual in found)
    expected = 4 * np.sum([vector(node) for node in range(nodes)], axis=0)
    np.testing.assert_allclose(total, expected, atol=1e-4)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", KEEPING)
def test_sums_over_time_have_the_true_mean(name: str, nodes: int) -> None:
    size, times = 600, 200

    def work(collective: CompressedCollective) -> np.ndarray:
        arrived = np.zeros(size)
        for _ in range(times):
            values = vector(collective.node, size)
            collective.all_reduce(values)
            arrived += values
        return arrived / times

    expected = np.sum([vector(node, size) for node in range(nodes)], axis=0, dtype=np.float64)
    for mean in on_nodes(nodes, name, work, size):
        # what is kept is bounded: of top_k, some 50 times as much as is sent at once
        limit = {"int8": 0.01, "float4": 0.02, "top_k": 0.75}[name]
        assert np.abs(mean - expected).max() <= limit * np.abs(expected).max()


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_reaches_all(name: str, nodes: int, bad: float) -> None:
    places = [3, SIZE - 1]

    def work(collective: CompressedCollective) -> np.ndarray:
        values = vector(collective.node)
        if collective.node == nodes - 1:
            values[places] = bad
        collective.all_reduce(values)
        return values

    for values in on_nodes(nodes, name, work):
        assert not np.isfinite(values[places]).any()


@pytest.mark.parametrize("name", FORMATS)
def test_all_but_sums_for_all_is_as_it_was(name: str) -> None:
    def work(collective: CompressedCollective) -> list[Any]:
        reduced, sent = vector(collective.node), vector(collective.node)
        collective.reduce(reduced)
        collective.broadcast(sent)
        gathered = collective.gather(np.array([collective.node, 0.1]))
        rows = np.zeros((3, 2), np.uint8)
        collective.all_gather(np.full(2, collective.node, np.uint8), rows)
        own = np.arange(6, dtype=np.uint8).reshape(3, 2) + np.uint8(10 * collective.node)
        given = np.zeros((3, 2), np.uint8)
        collective.all_to_all(own, given)
        collective.close()
        assert collective.residual.size == 0
        return [reduced, sent, gathered, rows, given]

    found = on_nodes(3, name, work)
    expected = np.sum([vector(node) for node in range(3)], axis=0, dtype=np.float32)
    np.testing.assert_allclose(found[0][0], expected, atol=1e-6)
    for node, (_, sent, gathered, rows, given) in enumerate(found):
        assert np.array_equal(sent, vector(0))
        assert gathered.tolist() == [[0, 0.1], [1, 0.1], [2, 0.1]]
        assert rows.tolist() == [[0, 0], [1, 1], [2, 2]]
        assert given.tolist() == [[10 * of + 2 * node, 10 * of + 2 * node + 1] for of in range(3)]


def test_it_is_its_inner_collective_to_others() -> None:
    inner: NodeCollective = OneNode()
    made = CompressedCollective(inner, FORMATS["int8"](10), 10)
    assert (made.name, made.node, made.nodes) == (inner.name, 0, 1)
