"""Slurm's binding of this process, from its variables (srun(1), ENVIRONMENT).

If srun's --cpu-bind said cores, sockets or nothing, a step's variables have the resulting masks of
all its tasks on the node. A batch script has no such variables, though it is bound.

Tasks do not see the job's --constraint: Slurm gives SLURM_JOB_CONSTRAINTS to prologs only, and a
site may pass it on. Observed under Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from affinity.numbers import whole_number

CLUSTER_FEATURES = {
    "a2a": "all-to-all",
    "hemi": "hemisphere",
    "quad": "quadrant",
    "snc2": "SNC-2",
    "snc4": "SNC-4",
}
MEMORY_FEATURES = {"flat": "flat", "cache": "cache", "equal": "hybrid", "split": "hybrid"}
"""Features of nodes with a Xeon Phi, in Slurm's words, and the modes they stand for."""

_PATIENCE_SECONDS = 5
"""A controller that has much to do is not worth waiting for."""


class SlurmWords(NamedTuple):
    """A job's id and its binding of this process; empty or None where there is none.

    `cpu_bind` and `mem_bind` are as in srun's options: ``mask_cpu:0x3``, ``prefer,map_mem:2``. Of a
    list with an entry for each task they have this task's.
    """

    job: str
    cpu_bind: str = ""
    mem_bind: str = ""
    cpus_per_task: int | None = None
    cpus_per_step_task: int | None = None
    constraint: str = ""


def slurm_words(environment: Mapping[str, str]) -> SlurmWords | None:
    """The binding in the variables of a job; None outside of one."""
    job = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID")
    if not job:
        return None
    task = whole_number(environment.get("SLURM_LOCALID"))
    memory = _own(_bound(environment, "SLURM_MEM_BIND"), task)
    if memory and environment.get("SLURM_MEM_BIND_PREFER"):
        memory = f"prefer,{memory.removeprefix('prefer,')}"
    return SlurmWords(
        job,
        _own(_bound(environment, "SLURM_CPU_BIND"), task),
        memory,
        whole_number(environment.get("SLURM_CPUS_PER_TASK")),
        whole_number(environment.get("SRUN_CPUS_PER_TASK")),
        environment.get("SLURM_JOB_CONSTRAINTS", ""),
    )


def bound_by(words: SlurmWords, cpus: Iterable[int]) -> str:
    """The source of the mask of `cpus` of a process in a job, as far as it can be told."""
    if not words.cpu_bind:
        return f"Slurm job {words.job}, or taskset in it"
    bound = _cpus_in(words.cpu_bind)
    if bound is not None and bound != frozenset(cpus):
        return f"affinity mask (taskset, or a launcher) in Slurm job {words.job}"
    return f"Slurm (--cpu-bind={words.cpu_bind})"


def way_to_more_cpus(words: SlurmWords) -> str:
    """The options by which a user gets more cpus in a process like this one."""
    if words.cpu_bind:
        return (
            "have Slurm give each task more cpus (srun -c), "
            "or all that the job has on the node (srun --cpu-bind=none)"
        )
    return "have Slurm give the job more cpus (sbatch, salloc or srun with -c)"


def with_constraint(words: SlurmWords) -> SlurmWords:
    """`words` with the job's constraint, for which Slurm's controller is asked if need be.

    Only for a single process that is inspected: thousands must not ask a controller.
    """
    if words.constraint:
        return words
    import subprocess  # Costs more than all else here, and is hardly ever needed.

    command = ("scontrol", "--oneliner", "show", "job", words.job)
    told = ""
    with suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_SECONDS,
            check=False,
        ).stdout.decode(errors="replace")
    found = re.search(r"\sFeatures=(\S+)", told)
    constraint = found[1] if found and found[1] != "(null)" else ""
    return words._replace(constraint=constraint)


def slurm_notes(words: SlurmWords, cpus: int) -> Iterator[str]:
    """Notes on a job in which this process may use `cpus` cpus, with remedies."""
    promised = words.cpus_per_task
    if promised is None or cpus >= promised:
        return
    way_out = "start it with srun -c"
    if words.cpus_per_step_task is None:
        way_out = (
            "since Slurm 22.05 srun does not take sbatch's -c: "
            "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or give srun its own -c"
        )
    yield (
        f"Slurm job {words.job} asked for {promised} cpus per task, "
        f"but this process may use {cpus}: {way_out}"
    )


def contradicted_constraints(words: SlurmWords, cluster: str, memory: str) -> Iterator[str]:
    """Contradictions between a job's constraint and the Xeon Phi modes `cluster` and `memory`.

    These are as in `Modes`. A constraint that allows several modes asks for none.
    """
    for features, found in ((CLUSTER_FEATURES, cluster), (MEMORY_FEATURES, memory)):
        asked = {
            features[word] for word in re.findall(r"\w+", words.constraint) if word in features
        }
        if len(asked) == 1 and (mode := asked.pop()).lower() not in found.lower():
            yield (
                f"Slurm job {words.job} asked for {mode} (constraint {words.constraint!r}), but "
                f"this node is {found}: it was not rebooted for it, or its features are stale"
            )


def _bound(environment: Mapping[str, str], name: str) -> str:
    """The binding in one of Slurm's groups of variables, without its say on verbosity."""
    if f"{name}_TYPE" in environment:
        bound = environment[f"{name}_TYPE"] + environment.get(f"{name}_LIST", "")
    else:
        bound = re.sub(r"^(quiet|verbose)(,|$)", "", environment.get(name, ""))
    return "" if bound == "none" else bound


def _own(bound: str, task: int | None) -> str:
    """What is for the node's task number `task` in a list for all of them; it may be shorter."""
    kind, colon, listed = bound.partition(":")
    if task is None or not listed:
        return bound
    each = listed.split(",")
    return f"{kind}{colon}{each[task % len(each)]}"


def _cpus_in(bound: str) -> frozenset[int] | None:
    """The cpus that a map or mask names, None if other words were used or several tasks' masks."""
    kind, _, value = bound.partition(":")
    with suppress(ValueError):
        if kind == "mask_cpu":
            mask = int(value, 16)
            return frozenset(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)
        if kind == "map_cpu":
            return frozenset((int(value, 0),))
    return None
