"""Draws a memory as a bar: the part already used, and the share of each worker."""

from __future__ import annotations

from collections.abc import Iterator

from affinity.cli.phrases import format_rate, memory_names
from affinity.cli.picture.blocks import Block, Rectangle, Words
from affinity.cli.picture.colours import MEMORY, TAKEN, UNKNOWN_MEMORY, worker_colour
from affinity.numbers import format_bytes
from affinity.placement.plan import MemoryPlan, Plan
from affinity.topology import NumaNode, Topology

_TEXT_SIZE = 11
_BAR_AT = 16
_BAR_HEIGHT = 16


def memory_block(topology: Topology, node: NumaNode, plan: Plan | None, width: float) -> Block:
    """The bar of one memory, as wide as `width`, with its name above."""
    ground, edge = MEMORY.get(node.kind, UNKNOWN_MEMORY)
    name = Words(0, _TEXT_SIZE, _name(topology, node), _TEXT_SIZE, edge, bold=node.kind == "hbm")
    bar = Rectangle(0, _BAR_AT, width, _BAR_HEIGHT, ground, edge, radius=2)
    shapes: list[Rectangle | Words] = [name, bar]
    x = 0.0
    for size, colour, told in _parts(topology, node, plan) if node.size_told else ():
        end = min(x + width * size / node.memory_bytes, width)
        shapes.append(Rectangle(x, _BAR_AT, end - x, _BAR_HEIGHT, colour, edge, told=told))
        x = end
    return Block(width, _BAR_AT + _BAR_HEIGHT, tuple(shapes))


def bytes_on_node(topology: Topology, memory: MemoryPlan, node: NumaNode) -> int:
    """What a worker is expected to use of this node or, with needs unknown, its share of it.

    A share of several nodes is taken from each as far as it is free.
    """
    if memory.expected:
        return dict(memory.expected).get(node.id, 0)
    if node.id not in memory.nodes:
        return 0
    free = sum(topology.node(id_).free_bytes for id_ in memory.nodes)
    return memory.budget_bytes * node.free_bytes // free if free else 0


def _parts(topology: Topology, node: NumaNode, plan: Plan | None) -> Iterator[tuple[int, str, str]]:
    taken = node.memory_bytes - node.free_bytes
    if taken > 0:
        yield taken, TAKEN, f"{format_bytes(taken)} taken already"
    for worker in () if plan is None else plan.workers:
        if size := bytes_on_node(topology, worker.memory, node):
            colour = worker_colour(worker.rank)
            yield size, colour, f"worker {worker.rank}: {format_bytes(size)}"


def _name(topology: Topology, node: NumaNode) -> str:
    bandwidth = node.bandwidth_mb_per_second
    speed = "" if bandwidth is None else f", {format_rate(bandwidth)}"
    cache = "".join(f", cached by {format_bytes(c.size_bytes)}" for c in node.side_caches)
    (name,) = memory_names(topology, [node.id])
    size = format_bytes(node.memory_bytes) if node.size_told else "size not told"
    return f"{name}: {size}{speed}{cache}"
