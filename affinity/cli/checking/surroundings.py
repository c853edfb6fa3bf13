"""Checks what a job inherits: its limits, and variables that bind or count threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from affinity.cli.checking.finding import Finding, Level
from affinity.cli.show import part
from affinity.process.allowed import AllowedResources
from affinity.process.own import PLACEMENT_VARIABLE
from affinity.process.slurm import contradicted_constraints, slurm_words, with_constraint
from affinity.process.thread_environment import THREAD_COUNT_VARIABLES, THREAD_PLACEMENT_VARIABLES
from affinity.topology import Topology


def limit_findings(
    topology: Topology, allowed: AllowedResources, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """The cpus and memories that may be used, who limits them and what that costs.

    In a process with a placement, limits are expected.
    """
    level: Level = "note" if PLACEMENT_VARIABLE in environment else "warn"
    yield Finding("ok", "allowed cpus", part("cpu", allowed.cpus, topology.cpus))
    if allowed.mems is not None:
        nodes = [node.id for node in topology.numa_nodes]
        yield Finding("ok", "allowed memories", part("memory node", allowed.mems, nodes))
        barred = [n for n in topology.numa_nodes if n.kind == "hbm" and n.id not in allowed.mems]
        if barred:
            text = f"not allowed: {', '.join(f'node {node.id}' for node in barred)}"
            yield Finding(level, "HBM", text, "widen the cpuset, or srun --mem-bind=none")
    for words in allowed.said_by:
        yield Finding("note", "limited by", words)
    for words in allowed.notes:
        yield Finding(level, "limits", words)


def constraint_findings(topology: Topology, environment: Mapping[str, str]) -> Iterator[Finding]:
    """The nodes that the Slurm job asked for, and whether the modes of a Xeon Phi agree."""
    slurm, modes = slurm_words(environment), topology.modes
    if slurm is None or not (slurm := with_constraint(slurm)).constraint:
        return
    contradicted = modes and list(contradicted_constraints(slurm, modes.cluster, modes.memory))
    for words in contradicted or ():
        yield Finding("fail", "Slurm constraint", words)
    if not contradicted:
        yield Finding("note", "Slurm constraint", f"job {slurm.job} asked for {slurm.constraint}")


def variable_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables by which an OpenMP runtime binds threads, or sets the thread count of libraries."""
    moving = {n: environment[n] for n in THREAD_PLACEMENT_VARIABLES if n in environment}
    if moving:
        yield Finding(
            "warn",
            "OpenMP",
            f"{_listed(moving)}: the first library that loads OpenMP leaves this process on one "
            "core, and what counts its cpus or forks later finds just that",
            f"unset {' '.join(moving)}; run --pin-threads sets them rightly for each rank",
        )
    else:
        yield Finding("ok", "OpenMP", "no variable that moves threads is set")
    counting = {n: environment[n] for n in THREAD_COUNT_VARIABLES if n in environment}
    if counting:
        cause = " (torchrun sets 1)" if "TORCHELASTIC_RUN_ID" in environment else ""
        text = f"{_listed(counting)}{cause}: run gives each rank numbers of its own"
        yield Finding("note", "thread counts", text)


def _listed(variables: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in variables.items())
