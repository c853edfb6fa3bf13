"""Draws the whole picture: packages side by side, in each its NUMA nodes, below them a legend."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt
from pathlib import Path

from affinity.cli.homes import Home, homes, shared_memories
from affinity.cli.phrases import machine_name
from affinity.cli.picture.blocks import Block, framed, stacked, words, wrapped
from affinity.cli.picture.colours import GROUND, LINE, PAPER
from affinity.cli.picture.cores import cores_block
from affinity.cli.picture.legend import legend_block
from affinity.cli.picture.memory import memory_block
from affinity.cli.roles import Role, cpu_roles
from affinity.cli.tree import count_cores
from affinity.errors import AffinityError
from affinity.placement.plan import Plan
from affinity.topology import Topology

_SMALLEST_NODE = 240


def write_picture(path: Path, topology: Topology, plan: Plan | None = None) -> None:
    """Draw the machine into an .svg file, or into a .png file where matplotlib is installed.

    Raises AffinityError for other names, without matplotlib, or if the file cannot be written.
    """
    if path.suffix not in (".svg", ".png"):
        raise AffinityError(f"cannot draw {path}: the name has to end in .svg or .png")
    block = draw_machine(topology, plan)
    try:
        if path.suffix == ".svg":
            from affinity.cli.picture.svg import to_svg

            path.write_text(to_svg(block), encoding="utf-8")
        else:
            from affinity.cli.picture.png import write_png

            write_png(path, block)
    except OSError as error:
        raise AffinityError(f"cannot write the picture {path}: {error.strerror}") from error


def draw_machine(topology: Topology, plan: Plan | None = None) -> Block:
    """The picture as a block; without a plan all cores look the same."""
    roles = None if plan is None else cpu_roles(topology, plan)
    rooms = homes(topology)
    packages = sorted({home.package for home in rooms})
    drawn = [
        _package(topology, [home for home in rooms if home.package == package], roles, plan)
        for package in packages
    ]
    machine = wrapped(drawn, ceil(sqrt(len(drawn))), gap=16)
    parts = [words(machine_name(topology), 18, bold=True), machine]
    parts += [
        memory_block(topology, node, plan, machine.width) for node in shared_memories(topology)
    ]
    if plan is not None and roles is not None:
        parts.append(legend_block(topology, plan, roles))
    return framed(stacked(parts, gap=14), 20, PAPER, "none", radius=0)


def _package(
    topology: Topology, rooms: list[Home], roles: Mapping[int, Role] | None, plan: Plan | None
) -> Block:
    nodes = [_node(topology, home, roles, plan) for home in rooms]
    title = words(f"package {rooms[0].package}", 14, bold=True)
    body = stacked([title, wrapped(nodes, ceil(sqrt(len(nodes))), gap=12)], gap=4)
    return framed(body, 12, GROUND, LINE, radius=8)


def _node(
    topology: Topology, home: Home, roles: Mapping[int, Role] | None, plan: Plan | None
) -> Block:
    title = words(f"node {home.node}: {count_cores(topology, home)}", 12)
    cores = cores_block(topology, home, roles)
    width = max(cores.width, title.width, _SMALLEST_NODE)
    memories = [memory_block(topology, node, plan, width) for node in home.memories]
    return framed(stacked([title, cores, *memories], gap=8), 10, PAPER, LINE, radius=6)
