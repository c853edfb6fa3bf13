"""The memory policy of a worker, and the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from affinity import terms
from affinity.errors import PlacementError
from affinity.placement.memories import Memories
from affinity.placement.plan import Arena, KernelMode, MemoryPlan, Need, Request, WantedKind
from affinity.placement.wording import by_whom, named, numbered


@dataclass(frozen=True, slots=True)
class Part:
    """Memory of a worker that has one policy: all of it (`name` is empty), or one arena.

    `targets` are the nodes that it is meant for, also where the mode is "default".
    """

    name: str
    bytes: int | None
    mode: KernelMode
    nodes: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aim:
    """A worker's memory plan as far as it follows from where its cores are, without amounts."""

    plan: MemoryPlan
    parts: tuple[Part, ...] = ()

    @property
    def targets(self) -> tuple[int, ...]:
        """All nodes that the worker's memory is meant for."""
        wanted = {*self.plan.nodes, *(node for part in self.parts for node in part.targets)}
        return tuple(sorted(wanted))


def aim(memories: Memories, own: tuple[int, ...], request: Request) -> Aim:
    """Plan the memory of a worker with cores on the NUMA nodes `own`.

    Raises PlacementError where a kind of memory is asked for that its cores do not have.
    """
    if request.policy == "none":
        return Aim(MemoryPlan(reasons=("left to the kernel and to what the process inherits",)))
    if request.policy == "split":
        return _split(memories, own, request)
    if request.policy == "cache":
        nodes = _main(memories, own)
    elif request.policy == "weighted":
        nodes = _weighted_nodes(memories, own, request.kind)
    else:
        nodes = _wanted(memories, own, request.kind)
    mode = _mode(request, nodes, own)
    told = () if mode == "default" else tuple(sorted(nodes))
    plan = MemoryPlan(
        policy=request.policy,
        mode=mode,
        nodes=told,
        order=memories.order(mode, told, own),
        hbm=any(memories.topology.node(node).kind == "hbm" for node in nodes),
        need_bytes=_total(request.needs),
    )
    part = Part("", sum(need.bytes or 0 for need in request.needs), mode, told, nodes)
    return Aim(replace(plan, reasons=_reasons(memories, own, plan, nodes)), (part,))


def _mode(request: Request, nodes: tuple[int, ...], own: tuple[int, ...]) -> KernelMode:
    if request.policy == "strict":
        return "bind"
    if request.policy == "weighted" and len(nodes) > 1:
        return "weighted-interleave"
    # What lies next to the cores comes first without a policy: nothing to tell the kernel.
    if request.policy == "cache" or set(nodes) <= set(own):
        return "default"
    return _preferring(nodes)


def _preferring(nodes: tuple[int, ...]) -> KernelMode:
    return "preferred" if len(nodes) == 1 else "preferred-many"


def _wanted(memories: Memories, own: tuple[int, ...], kind: WantedKind) -> tuple[int, ...]:
    """The nodes of the kind that is asked for, next to the cores."""
    hbm, dram = memories.hbm(own), memories.dram(own)
    if kind == "hbm" and not hbm:
        raise PlacementError(_no_hbm(memories, own))
    if kind == "dram" and not dram:
        raise PlacementError(_no_dram(memories, own))
    if kind == "dram" or not hbm:
        return _main(memories, own)
    return hbm


def _main(memories: Memories, own: tuple[int, ...]) -> tuple[int, ...]:
    """DRAM, on a machine of HBM that, and whatever is nearest where there is neither."""
    return memories.dram(own) or memories.hbm(own) or memories.order_from(own[0])[:1]


def _weighted_nodes(memories: Memories, own: tuple[int, ...], kind: WantedKind) -> tuple[int, ...]:
    hbm = _wanted(memories, own, kind) if kind != "dram" else ()
    return tuple(dict.fromkeys((*hbm, *_main(memories, own))))


def _split(memories: Memories, own: tuple[int, ...], request: Request) -> Aim:
    """The process in DRAM, and an arena for each need where it asks to be."""
    home = _main(memories, own)
    parts = []
    for need in request.needs:
        nodes = _wanted(memories, own, request.kind if need.kind == "best" else need.kind)
        parts.append(Part(need.name, need.bytes, _preferring(nodes), nodes, nodes))
    mode = _preferring(home)
    topology = memories.topology
    reasons = [f"the process itself prefers {named(topology, home)}"]
    reasons += [f"{part.name} has an arena that prefers {named(topology, part.nodes)}"
                for part in parts]  # fmt: skip
    hbm = [node for part in parts for node in part.nodes if topology.node(node).kind == "hbm"]
    plan = MemoryPlan(
        policy="split",
        mode=mode,
        nodes=home,
        order=memories.order(mode, home, own),
        hbm=bool(hbm),
        need_bytes=_total(request.needs),
        arenas=tuple(Arena(part.name, part.mode, part.nodes, part.bytes) for part in parts),
        reasons=(*reasons, *_evidence(memories, tuple(dict.fromkeys(hbm)))),
    )
    return Aim(plan, tuple(parts))


def _total(needs: tuple[Need, ...]) -> int | None:
    """Bytes of all needs; None if there are none or one is not known."""
    amounts = [need.bytes for need in needs if need.bytes is not None]
    return sum(amounts) if needs and len(amounts) == len(needs) else None


def _reasons(
    memories: Memories, own: tuple[int, ...], plan: MemoryPlan, nodes: tuple[int, ...]
) -> tuple[str, ...]:
    """Why these nodes, in sentences."""
    topology, at = memories.topology, numbered("NUMA node", own)
    where, rest = named(topology, nodes), plan.order[len(nodes) :]
    after = f", then {named(topology, rest[:1])} as the next nearest" if rest else ""
    if plan.policy == "cache":
        first = f"{where}, the memory of {at}; a memory-side cache in front of it works by itself"
    elif plan.mode == "bind":
        first = f"{where} and nothing else: what does not fit is killed, not spilled"
    elif plan.mode == "weighted-interleave":
        first = (
            f"{where} at once, in the ratio of the weights in weighted_interleave/nodeN of sysfs"
        )
    elif plan.mode == "default":
        first = f"{where} first, without any policy: it belongs to the cores{after}"
    else:
        first = f"{where} first{after}"
    mask: tuple[str, ...] = ()
    if plan.hbm and plan.mode in ("preferred", "preferred-many"):
        mask = ("only the first choice is in the mask: the kernel searches a mask from the cores "
                "on, so one that names DRAM as well would fill DRAM first",)  # fmt: skip
    far = tuple(node for node in nodes if not set(own) & set(topology.node(node).near))
    nearest = (
        (f"no DRAM next to {at} may be used: {named(topology, far)} is nearest",) if far else ()
    )
    hbm = tuple(node for node in nodes if topology.node(node).kind == "hbm")
    return (first, *mask, *nearest, *_evidence(memories, hbm))


def _evidence(memories: Memories, hbm: tuple[int, ...]) -> list[str]:
    """Why these nodes count as HBM, and as that of these cores."""
    reasons = []
    for node in map(memories.topology.node, hbm):
        name = named(memories.topology, (node.id,))
        reasons.append(f"{name} is HBM: {node.evidence}")
        if node.near_evidence:
            reasons.append(
                f"{name} is near {numbered('NUMA node', node.near)}: {node.near_evidence}"
            )
    return reasons


def _no_hbm(memories: Memories, own: tuple[int, ...]) -> str:
    """The error for HBM where none is: what is there instead, and the remedy."""
    topology = memories.topology
    asked = f"memory in HBM asked for, but {numbered('NUMA node', own)}"
    if hidden := memories.hidden(own, ["hbm"]):
        where = f"{named(topology, hidden)} near {numbered('NUMA node', own)}"
        return f"memory in HBM asked for, but {where} {forbidden(memories)}"
    if others := [node for node in topology.numa_nodes if node.kind == "hbm"]:
        return (
            f"{asked} has none: {named(topology, (node.id for node in others))} is near "
            f"{numbered('NUMA node', sorted({near for node in others for near in node.near}))}"
        )
    if any(node.side_caches for node in topology.numa_nodes):
        return (
            f"{asked} has none to put it in: a memory-side cache works by itself; "
            f"use {terms.policy('cache')} or {terms.kind('best')}"
        )
    return (
        f"memory in HBM asked for, but this machine has {_all(memories)} only: "
        f"use {terms.kind('best')}, or {terms.hbm()} to say which nodes are HBM"
    )


def _no_dram(memories: Memories, own: tuple[int, ...]) -> str:
    """The error for DRAM where none may be used, near or far."""
    topology, asked = memories.topology, "memory in DRAM asked for, but"
    everywhere = [node.id for node in topology.numa_nodes if node.cpus]
    if hidden := memories.hidden(own, ["dram"]) or memories.hidden(everywhere, ["dram"]):
        hidden_where = f"{named(topology, hidden)} {forbidden(memories)}"
        return f"{asked} {hidden_where}; or use {terms.kind('best')}"
    return f"{asked} this machine has {_all(memories)} only: use {terms.kind('best')}"


def _all(memories: Memories) -> str:
    return named(memories.topology, sorted(memories.existing))


def forbidden(memories: Memories) -> str:
    """What follows the names of memories that are there: that they may not be used, and why."""
    return (
        f"may not be used{by_whom(memories.allowed)}: widen cpuset.mems, or srun --mem-bind=none "
        "where Slurm bound the memory"
    )
