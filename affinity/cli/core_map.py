"""A plan as a map: one letter for each core, NUMA node by NUMA node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase, digits

from affinity.cli.layout import WIDTH
from affinity.cli.roles import Role, Use, core_role, cpu_roles
from affinity.placement.plan import Plan
from affinity.topology import Core, Topology

_RANKS = digits + ascii_lowercase + ascii_uppercase
_BEYOND = "#"
_MARKS: dict[Use, tuple[str, str]] = {
    "communication": ("~", "communication"),
    "data": ("+", "data"),
    "system": ("=", "kept for the system"),
    "idle": (".", "idle"),
    "forbidden": ("!", "not allowed"),
}


def core_map(topology: Topology, plan: Plan) -> list[str]:
    """Each core as the letter of its worker, cores of one tile in brackets; then what it means."""
    roles = cpu_roles(topology, plan)
    tiled = any(len(tile) > 1 for tile in topology.tiles)
    rows: dict[str, list[list[str]]] = {}
    before: Sequence[Core] = ()
    l3_of = {core: group for group in topology.l3_groups for core in group}
    for tile in topology.tiles:
        groups = rows.setdefault(f"package {tile[0].package} node {tile[0].numa_node}", [[]])
        l3 = l3_of[tile[0]]
        if groups[-1] and len(l3) > len(tile) and l3 is not before:
            groups.append([])
        before = l3
        letters = "".join(_letter(core_role(core, roles)) for core in tile)
        groups[-1].append(f"[{letters}]" if tiled else letters)
    width = max(map(len, rows))
    lines = [line for name, row in rows.items() for line in _wrapped(f"{name:<{width}}  ", row)]
    return [*lines, _legend(plan, roles, tiled)]


def _letter(role: Role) -> str:
    if role.use != "compute" or role.rank is None:
        return _MARKS[role.use][0]
    return _RANKS[role.rank] if role.rank < len(_RANKS) else _BEYOND


def _wrapped(lead: str, groups: Sequence[Sequence[str]]) -> list[str]:
    """Groups with a blank between them, broken between groups, or else between their tiles."""
    lines, blank = [lead], ""
    for group in groups:
        text = blank + "".join(group)
        for piece in [text] if len(text) < WIDTH - len(lead) else group:
            if len(lines[-1]) + len(piece) > WIDTH:
                lines.append(" " * len(lead))
                piece = piece.lstrip()
            lines[-1] += piece
        blank = " "
    return lines


def _legend(plan: Plan, roles: Mapping[int, Role], tiled: bool) -> str:
    shown = {role.use for role in roles.values()}
    last = min(len(plan.workers), len(_RANKS)) - 1
    words = [f"{_RANKS[0]}-{_RANKS[last]} worker of that core" if last else "0 the worker's core"]
    if len(plan.workers) > len(_RANKS):
        words.append(f"{_BEYOND} workers from {len(_RANKS)} on")
    words += [f"{mark} {meaning}" for use, (mark, meaning) in _MARKS.items() if use in shown]
    return "   ".join((*words, "[ ] a tile") if tiled else words)
