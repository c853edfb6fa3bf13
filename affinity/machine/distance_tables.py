"""Distance tables that the firmware of Xeon Phi and Xeon Max is known to have.

Used for sources that name no processor (``numactl -H``, descriptions of virtual machines). This is
weak evidence: other firmware could have the same table. A table counts only as a whole.

Xeon Phi, SNC-2 (memkind's and hwloc's machines)     Xeon Max, 2 packages (Aurora)
      0  1  2  3                                           0  1  2  3
  0: 10 21 31 41                                       0: 10 21 13 23
  1: 21 10 41 31                                       1: 21 10 23 13
  2: 31 41 10 41    memory without cpus                2: 13 23 10 23
  3: 41 31 41 10                                       3: 23 13 23 10
"""

from __future__ import annotations

from collections.abc import Iterable

from affinity.machine.description import Description

SNC_CLUSTERS = 4
"""Nodes with cpus of one Xeon Phi or Xeon Max: 1, 2 or 4."""


def like_knights(description: Description, hbm_bytes: int) -> bool:
    """Whether the distances and sizes are those of one Xeon Phi with its MCDRAM in flat mode."""
    owners, away = _split(description)
    return (
        len(owners) in (1, 2, SNC_CLUSTERS)
        and _each_has_one(description, owners, away, own=31, others={41})
        and _distances(description, owners, owners) <= {21}
        and _distances(description, away, away) <= {41}
        and sum(description.nodes[node].memory_bytes for node in away) <= hbm_bytes
    )


def like_xeon_max(description: Description, hbm_bytes: int) -> bool:
    """Whether distances and sizes are those of Xeon Max packages with their HBM in flat mode.

    In SNC-4, HBM is 14 from the other clusters of its package, and these 12 from each other.
    """
    owners, away = _split(description)
    # The most that one node can have, with and without clusters; 12 tells that there are some.
    clusters = SNC_CLUSTERS if 12 in _distances(description, owners, owners) else 1
    sizes = [description.nodes[node].memory_bytes for node in away]
    return (
        len(owners) % clusters == 0
        and _each_has_one(description, owners, away, own=13, others={14, 23})
        and _distances(description, owners, owners) <= {12, 21}
        and max(sizes, default=0) <= hbm_bytes // clusters
    )


def _split(description: Description) -> tuple[list[int], list[int]]:
    """Ids of the nodes with cpus, and of the memories without."""
    nodes = description.nodes.values()
    return (
        [node.id for node in nodes if node.cpus],
        [node.id for node in nodes if not node.cpus and node.holds_memory],
    )


def _each_has_one(
    description: Description, owners: list[int], away: list[int], own: int, others: set[int]
) -> bool:
    """Whether each memory of `away` is `own` from one node with cpus, and no two from the same."""
    pairs = [(node, owner) for node in away for owner in owners]
    near = [(node, owner) for node, owner in pairs if _distance(description, node, owner) == own]
    return (
        bool(away)
        and sorted(node for node, _ in near) == sorted(away)
        and sorted(owner for _, owner in near) == sorted(owners)
        and _distances(description, away, owners) <= {own, *others}
    )


def _distances(
    description: Description, ones: Iterable[int], others: Iterable[int]
) -> set[int | None]:
    """The distances that occur between different nodes."""
    columns = tuple(others)
    return {_distance(description, a, b) for a in ones for b in columns if a != b}


def _distance(description: Description, node: int, other: int) -> int | None:
    return description.distances.get((node, other))
