"""The node share: which workers of a run this process starts, all or some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from affinity import format_cpulist, parse_cpulist
from knltrain.cluster.task import Task
from knltrain.data.contents import DataContents
from knltrain.errors import ConfigError

LOCAL_KEYS: Final = ("placement.", "backend.threads")
"""Keys whose values may differ from computer to computer."""


@dataclass(frozen=True, slots=True)
class NodeShare:
    """Share ``share`` of the ``shares`` of node ``node``, of ``nodes`` nodes.

    A launcher that starts one task on each computer gives each node one share: all of its workers.
    A launcher that starts a task for each worker, or for every few, gives each node as many shares.
    """

    node: int = 0
    nodes: int = 1
    share: int = 0
    shares: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the first of all: it keeps the run folder, and prints for the user."""
        return self.node == 0 and self.share == 0


ALONE: Final = NodeShare()


def expected_node_share(task: Task | None) -> NodeShare:
    """The node share of a task before the rendezvous; the node's number may not be known yet.

    Raises ConfigError if the tasks cannot be divided evenly among the computers.
    """
    if task is None:
        return ALONE
    if task.tasks % task.local_tasks:
        raise ConfigError(
            f"{task.launcher} has started {task.tasks} tasks, {task.local_tasks} of them on this "
            "computer: expected as many on each, as by srun --ntasks-per-node"
        )
    return NodeShare(0, task.tasks // task.local_tasks, task.local_rank, task.local_tasks)


def card_of(
    task: Task,
    host: str,
    cpus: Sequence[int],
    version: str,
    config: Mapping[str, Any],
    data: DataContents | None = None,
) -> dict[str, Any]:
    """What a task tells the others of itself, for JSON; `cpus` are those that it may use.

    `data` is the contents of its data set.
    """
    return {
        "host": host,
        "node": task.node,
        "cpus": format_cpulist(cpus),
        "version": version,
        "config": _flat(config),
        "data": None if data is None else asdict(data),
    }


def agreed_node_shares(
    node_share: NodeShare, cards: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int]]:
    """Node and share of every task, by the ``cards`` of all.

    `node_share` is what the first one expected. Raises ConfigError where they do not agree on the
    run, where computers have different numbers of tasks, or where tasks of one have the same cpus.
    """
    _check_equal(cards)
    nodes: dict[tuple[str, str], list[int]] = {}
    for number, card in enumerate(cards):
        nodes.setdefault((card["host"], card["node"]), []).append(number)
    if len(nodes) != node_share.nodes or {len(tasks) for tasks in nodes.values()} != {
        node_share.shares
    }:
        listed = ", ".join(f"{len(tasks)} on {host}" for (host, _), tasks in nodes.items())
        raise ConfigError(
            f"{len(cards)} tasks are on {len(nodes)} computers ({listed}): expected "
            f"{node_share.shares} on each of {node_share.nodes}, as by srun --ntasks-per-node"
        )
    found = [(0, 0)] * len(cards)
    for node, tasks in enumerate(nodes.values()):
        _check_apart(tasks, cards)
        for share, task in enumerate(tasks):
            found[task] = (node, share)
    return found


def met_node_share(node_share: NodeShare, agreed: Sequence[int]) -> NodeShare:
    """The node share of a task, once all tasks have agreed on it."""
    node, share = agreed
    return replace(node_share, node=node, share=share)


def _check_apart(tasks: Sequence[int], cards: Sequence[Mapping[str, Any]]) -> None:
    """Refuse tasks of one computer that would place their workers on the same cores."""
    taken: dict[int, int] = {}
    for task in tasks:
        for cpu in parse_cpulist(cards[task]["cpus"]):
            if cpu in taken:
                raise ConfigError(
                    f"tasks {taken[cpu]} and {task} on {cards[task]['host']} may both use cpu "
                    f"{cpu}: expected cpus of its own for each task, as by srun --cpu-bind=cores "
                    "or mpirun --bind-to core; or start one task on each computer, which places "
                    "all workers there"
                )
            taken[cpu] = task


def _check_equal(cards: Sequence[Mapping[str, Any]]) -> None:
    first = cards[0]
    for number, card in enumerate(cards):
        who = f"task {number} on {card['host']}"
        if card["version"] != first["version"]:
            raise ConfigError(
                f"{who} runs knltrain {card['version']}, task 0 on {first['host']} "
                f"{first['version']}: expected the same everywhere"
            )
        keys = dict.fromkeys((*first["config"], *card["config"]))
        differing = [
            f"{key} = {own!r} instead of {theirs!r}"
            for key in keys
            if not key.startswith(LOCAL_KEYS)
            and (own := card["config"].get(key)) != (theirs := first["config"].get(key))
        ]
        if differing:
            raise ConfigError(
                f"{who} has another configuration than task 0 on {first['host']}: "
                f"{'; '.join(differing)}; expected the same file and the same options everywhere; "
                'what is "auto" may come out differently: give a number'
            )
        _check_same_data(who, card["data"], first)


def _check_same_data(who: str, fields: Mapping[str, Any] | None, first: Mapping[str, Any]) -> None:
    if fields is None or first["data"] is None:
        return
    own, theirs = (DataContents.from_fields(each) for each in (fields, first["data"]))
    if not own.same_as(theirs):
        raise ConfigError(
            f"{who} has found {own} to learn from, task 0 on {first['host']} {theirs}: expected "
            "the same files in data.root everywhere"
        )


def _flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found
