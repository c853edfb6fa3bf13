"""Which part of a run a process starts, and what all that start some must agree on."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from knltrain.cluster.task import Task
from knltrain.data.contents import DataContents, HalfContents
from knltrain.errors import ConfigError
from knltrain.launch.node_share import (
    ALONE,
    NodeShare,
    agreed_node_shares,
    card_of,
    expected_node_share,
    met_node_share,
)

CONFIG = {"seed": 1, "train": {"batch": 64}, "placement": {"pin": True}}
PAIR = NodeShare(0, 2)


def task(rank: int, tasks: int, local_rank: int, local_tasks: int, node: str = "0") -> Task:
    return Task("srun", rank, tasks, local_rank, local_tasks, node, "j", "n0")


def card(host: str, node: str, version: str = "1", cpu: int = 0, **changed: Any) -> dict[str, Any]:
    return card_of(task(0, 4, 0, 2, node), host, (cpu,), version, {**CONFIG, **changed})


def test_process_that_is_no_task_starts_all() -> None:
    assert expected_node_share(None) == ALONE
    assert ALONE.leads


def test_task_on_each_node_starts_all_of_that_node() -> None:
    assert expected_node_share(task(1, 2, 0, 1)) == NodeShare(0, 2, 0, 1)


def test_task_for_each_worker_starts_its_share() -> None:
    assert expected_node_share(task(5, 6, 2, 3)) == NodeShare(0, 2, 2, 3)


def test_as_many_tasks_as_do_not_come_out_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 tasks, 2 of them on this computer"):
        expected_node_share(task(0, 3, 0, 2))


def test_nodes_count_in_the_order_of_their_first_tasks_wherever_these_are() -> None:
    cards = [card("b", "1"), card("a", "0"), card("b", "1", cpu=1), card("a", "0", cpu=1)]
    expected = NodeShare(0, 2, 0, 2)
    found = [met_node_share(expected, agreed) for agreed in agreed_node_shares(expected, cards)]
    assert found == [
        NodeShare(0, 2, 0, 2),
        NodeShare(1, 2, 0, 2),
        NodeShare(0, 2, 1, 2),
        NodeShare(1, 2, 1, 2),
    ]
    assert [node_share.leads for node_share in found] == [True, False, False, False]


@pytest.mark.parametrize("other", [("b", "1"), ("a", "1")])
def test_nodes_with_different_numbers_of_tasks_are_refused_and_named(
    other: tuple[str, str],
) -> None:
    cards = [*(card("a", "0", cpu=cpu) for cpu in range(3)), card(*other)]
    with pytest.raises(ConfigError, match=rf"4 tasks are on 2 computers \(3 on a, 1 on {other[0]}"):
        agreed_node_shares(NodeShare(0, 2, 0, 2), cards)


def test_tasks_of_a_computer_with_the_same_cpus_are_refused_with_the_ways_out() -> None:
    cards = [card("a", "0", cpu=3), card("a", "0", cpu=3)]
    with pytest.raises(ConfigError) as error:
        agreed_node_shares(NodeShare(0, 1, 0, 2), cards)
    assert "tasks 0 and 1 on a may both use cpu 3" in str(error.value)
    assert "--cpu-bind=cores" in str(error.value)


def test_other_version_is_named() -> None:
    with pytest.raises(ConfigError, match="task 1 on b runs knltrain 2, task 0 on a 1"):
        agreed_node_shares(PAIR, [card("a", "0"), card("b", "1", "2")])


def test_keys_that_differ_are_named_with_both_values() -> None:
    cards = [card("a", "0"), card("b", "1", seed=2, train={"batch": 32})]
    with pytest.raises(ConfigError) as error:
        agreed_node_shares(PAIR, cards)
    assert "task 1 on b has another configuration than task 0 on a" in str(error.value)
    assert "seed = 2 instead of 1; train.batch = 32 instead of 64" in str(error.value)


def test_what_belongs_to_a_computer_may_differ() -> None:
    cards = [card("a", "0"), card("b", "1", placement={"pin": False})]
    assert agreed_node_shares(PAIR, cards) == [(0, 0), (1, 0)]


def test_tasks_that_found_other_data_are_refused_with_both() -> None:
    halves = [HalfContents(images, (28, 28, 1), f"{images:032}") for images in (9, 8)]
    same, other = (DataContents("mnist", halves[0], half) for half in halves)
    cards = [
        {**card(host, "0"), "data": json.loads(json.dumps(asdict(data)))}
        for host, data in (("a", same), ("b", other))
    ]
    with pytest.raises(ConfigError, match=r"task 1 on b has found 'mnist' with 9 .* and 8 .*on a"):
        agreed_node_shares(PAIR, cards)
    alike = [{**each, "data": cards[0]["data"]} for each in cards]
    assert agreed_node_shares(PAIR, alike) == [(0, 0), (1, 0)]
