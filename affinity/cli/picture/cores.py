"""Draws the cores of a NUMA node: a square for each, with its hardware threads as small squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt

from affinity.cli.homes import Home
from affinity.cli.picture.blocks import Block, Rectangle, Words, beside, framed, wrapped
from affinity.cli.picture.colours import CORE, LINE, PAPER, darker, ink_on, role_colour
from affinity.cli.roles import Role, Use, core_role
from affinity.cpulist import format_cpulist
from affinity.topology import Core, Topology

_SIDE = 34
_GAP = 4
_THREADS_AT = 24
_THREAD_HEIGHT = 6
_LETTERS: dict[Use, str] = {"communication": "c", "data": "d"}


def cores_block(topology: Topology, home: Home, roles: Mapping[int, Role] | None) -> Block:
    """Cores in their tiles, these in the groups that share an L3, where there are several.

    Caches may be shared beyond the node: what lies in it is drawn.
    """
    tiles = _within(home, topology.tiles)
    groups = _within(home, topology.l3_groups)
    if len(groups) == 1 or max(map(len, groups)) == 1:
        return _tiles_block(tiles, roles)
    members = [[tile for tile in tiles if tile[0] in group] for group in groups]
    blocks = [framed(_tiles_block(within, roles), 3, PAPER, LINE) for within in members]
    return wrapped(blocks, ceil(sqrt(len(blocks))), _GAP)


def _within(home: Home, groups: Iterable[Sequence[Core]]) -> list[list[Core]]:
    own = frozenset(home.cores)
    parts = ([core for core in group if core in own] for group in groups)
    return [part for part in parts if part]


def _tiles_block(tiles: Sequence[Sequence[Core]], roles: Mapping[int, Role] | None) -> Block:
    size = max(map(len, tiles))
    per_row = ceil(ceil(sqrt(1.8 * sum(map(len, tiles)))) / size)
    return wrapped([_tile(tile, roles, alone=size == 1) for tile in tiles], per_row, _GAP)


def _tile(tile: Sequence[Core], roles: Mapping[int, Role] | None, alone: bool) -> Block:
    cores = beside([_core(core, roles) for core in tile], 2)
    return cores if alone else framed(cores, 2, PAPER, LINE, told=f"tile of {len(tile)} cores")


def _core(core: Core, roles: Mapping[int, Role] | None) -> Block:
    fill = CORE if roles is None else role_colour(core_role(core, roles))
    told = f"core {core.id} of package {core.package}, cpus {format_cpulist(core.cpus)}"
    if roles is not None:
        told += f": {_role_words(core_role(core, roles))}"
    width = (_SIDE - _GAP) / len(core.cpus)
    threads = [
        Rectangle(
            _GAP / 2 + width * number + 1,
            _THREADS_AT,
            width - 2,
            _THREAD_HEIGHT,
            _thread_colour(fill, None if roles is None else roles[cpu]),
            LINE,
            told=f"cpu {cpu}" if roles is None else f"cpu {cpu}: {_role_words(roles[cpu])}",
        )
        for number, cpu in enumerate(core.cpus)
    ]
    letter = "" if roles is None else _LETTERS.get(core_role(core, roles).use, "")
    number = Words(_SIDE / 2, 16, f"{core.cpus[0]}{letter}", 11, ink_on(fill), centred=True)
    square = Rectangle(0, 0, _SIDE, _SIDE, fill, LINE, radius=3, told=told)
    return Block(_SIDE, _SIDE, (square, number, *threads))


def _thread_colour(fill: str, role: Role | None) -> str:
    if role is None or role.use == "compute":
        return darker(fill)
    return role_colour(role)


def _role_words(role: Role) -> str:
    if role.rank is None:
        return {"system": "kept for the system", "forbidden": "not allowed"}.get(role.use, role.use)
    return f"worker {role.rank}" + ("" if role.use == "compute" else f", {role.use}")
