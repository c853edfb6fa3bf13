"""Draws the legend of a picture's colours."""

from __future__ import annotations

from collections.abc import Mapping

from affinity.cli.picture.blocks import Block, Rectangle, beside, stacked, words, wrapped
from affinity.cli.picture.colours import LINE, TAKEN, role_colour, worker_colour
from affinity.cli.roles import Role, Use
from affinity.cli.show_plan import order_words
from affinity.placement.plan import Placement, Plan
from affinity.placement.wording import counted
from affinity.topology import Topology

_MOST_WORKERS = 64
_PER_ROW = 2
_MEANINGS: dict[Use, str] = {
    "communication": "c, or a light thread: communication",
    "data": "d: data",
    "system": "kept for the system",
    "idle": "idle",
    "forbidden": "not allowed",
}


def legend_block(topology: Topology, plan: Plan, roles: Mapping[int, Role]) -> Block:
    """One entry for each worker, then one for each other use that occurs."""
    workers = [
        _entry(worker_colour(worker.rank), _worker_words(topology, worker))
        for worker in plan.workers[:_MOST_WORKERS]
    ]
    if more := len(plan.workers) - len(workers):
        workers.append(words(f"and {counted(more, 'further worker')}", 12))
    by_use = {role.use: role for role in roles.values()}
    others = [
        _entry(role_colour(by_use[use]), meaning)
        for use, meaning in _MEANINGS.items()
        if use in by_use
    ]
    if any(node.free_bytes < node.memory_bytes for node in topology.numa_nodes):
        others.append(_entry(TAKEN, "memory taken already"))
    return stacked([wrapped(_same_width(workers), _PER_ROW, 6), beside(others, 14)], 12)


def _worker_words(topology: Topology, worker: Placement) -> str:
    order = order_words(topology, worker.memory)
    memory = f", memory {order}" if order else ""
    return f"worker {worker.rank}: {counted(worker.threads, 'thread')}{memory}"


def _entry(colour: str, text: str) -> Block:
    swatch = Block(16, 16, (Rectangle(0, 2, 14, 14, colour, LINE, radius=2),))
    return beside([swatch, words(text, 12)], 6)


def _same_width(blocks: list[Block]) -> list[Block]:
    widest = max(block.width for block in blocks)
    return [Block(widest, block.height, block.shapes) for block in blocks]
