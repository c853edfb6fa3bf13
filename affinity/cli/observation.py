"""One sample of all processes of a rank: where they are, and whether that defeats its placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from affinity.cpulist import parse_cpulist
from affinity.errors import AffinityError
from affinity.placement.plan import Arena, Placement
from affinity.process.other_process import is_launching, observe
from affinity.process.verification import (
    ObservedBinding,
    arena_problems,
    memory_problems,
    thread_problems,
)


@dataclass(frozen=True, slots=True)
class Sight:
    """One sample of all processes of a rank, bytes by node; `problems` are those of `judge`.

    `misplaced` if they defeat the placement: under policy strict any problem does, under others
    only that no memory is where it was to be.
    """

    cpus: tuple[int, ...]
    threads: int
    bytes_by_node: dict[int, int]
    problems: tuple[str, ...]
    misplaced: bool


def look_at(placement: Placement, members: Iterable[int]) -> Sight | None:
    """Sample the processes of a rank; None if they have ended, or are about to start."""
    found: list[ObservedBinding] = []
    for pid in members:
        with suppress(AffinityError):  # It has ended since.
            if not is_launching(pid) and not _has_ended(observed := observe(pid)):
                found.append(observed)
    if not found:
        return None
    memory = sum(map(_own_memory, found), Counter[int]())
    problems = (*thread_problems(placement, *found), *memory_problems(placement, *found))
    strict = placement.memory.policy == "strict"
    return Sight(
        cpus=tuple({cpu for observed in found for cpu in parse_cpulist(observed["cpus"])}),
        threads=sum(len(observed["threads"]) for observed in found),
        bytes_by_node=dict(memory),
        problems=problems,
        misplaced=bool(problems) if strict else _nothing_there(placement, found, memory.total()),
    )


def _nothing_there(placement: Placement, found: Sequence[ObservedBinding], held_bytes: int) -> bool:
    """Whether the largest process, or an arena that is due, has no memory where it was to be.

    Small processes may start when HBM is full. An arena is due once the rank holds as much as it
    needs.
    """
    arenas = placement.memory.arenas
    due = tuple(arena for arena in arenas if (arena.need_bytes or 0) <= held_bytes)
    largest = max(found, key=lambda observed: _own_memory(observed).total())
    return bool(
        memory_problems(_with_arenas(placement, ()), largest)
        or arena_problems(_with_arenas(placement, due), *found)
    )


def _with_arenas(placement: Placement, arenas: tuple[Arena, ...]) -> Placement:
    return replace(placement, memory=replace(placement.memory, arenas=arenas))


def _own_memory(observed: ObservedBinding) -> Counter[int]:
    """Own and shared bytes on each node that has some."""
    told = observed["memory"]
    sizes: Counter[int] = Counter()
    for part in (told["anonymous"], told["shared"]) if told else ():
        sizes.update({int(node): size for node, size in part.items() if size})
    return sizes


def _has_ended(observed: ObservedBinding) -> bool:
    """Whether a process has ended but is not reaped yet."""
    memory = observed["memory"]
    return memory is not None and not (memory["file"] or _own_memory(observed))
