"""Facts before conclusions."""

from __future__ import annotations

from affinity.machine.description import Description, NodeFacts, ThreadPlace


def test_descriptions_share_nothing() -> None:
    one, other = Description(), Description()
    one.threads[0] = ThreadPlace(0, 0)
    one.nodes[0] = NodeFacts(0)
    one.distances[0, 0] = 10
    one.sources.append("here")
    assert (other.threads, other.nodes, other.distances, other.sources) == ({}, {}, {}, [])


def test_what_is_not_told_is_none_and_not_zero() -> None:
    facts = NodeFacts(3)
    assert (facts.read_bandwidth, facts.read_latency, facts.tier, facts.told) == (None,) * 4
    assert not facts.zero_performance


def test_threads_of_one_core_are_equal() -> None:
    assert ThreadPlace(0, 5, "5,69") == ThreadPlace(0, 5, "5,69") != ThreadPlace(1, 5, "5,69")
