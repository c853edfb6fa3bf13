"""What Slurm says of the binding of this process, and what that means (srun(1), ENVIRONMENT)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

CLUSTER_FEATURES = {
    "a2a": "all-to-all",
    "hemi": "hemisphere",
    "quad": "quadrant",
    "snc2": "SNC-2",
    "snc4": "SNC-4",
}
MEMORY_FEATURES = {"flat": "flat", "cache": "cache", "equal": "hybrid", "split": "hybrid"}
"""Features of nodes with a Xeon Phi, in Slurm's words, and the modes they stand for."""


class SlurmWords(NamedTuple):
    """A job's id and the words that bound this process; empty or None where nothing was said.

    `cpu_bind` and `mem_bind` are as in srun's options: ``mask_cpu:0x3``, ``local``, ``map_mem:2``.
    """

    job: str
    cpu_bind: str = ""
    mem_bind: str = ""
    cpus_per_task: int | None = None
    cpus_per_step_task: int | None = None
    constraint: str = ""


def slurm_words(environment: Mapping[str, str]) -> SlurmWords | None:
    """What the variables of a job say; None outside of one."""
    job = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID")
    if not job:
        return None
    constraints = ("SLURM_JOB_CONSTRAINTS", "SLURM_CONSTRAINT", "SBATCH_CONSTRAINT")
    return SlurmWords(
        job,
        _bound(environment, "SLURM_CPU_BIND"),
        _bound(environment, "SLURM_MEM_BIND"),
        _number(environment.get("SLURM_CPUS_PER_TASK")),
        _number(environment.get("SRUN_CPUS_PER_TASK")),
        next((environment[name] for name in constraints if environment.get(name)), ""),
    )


def slurm_notes(words: SlurmWords, cpus: int) -> Iterator[str]:
    """What is odd about a job in which this process may use `cpus` cpus, and the way out."""
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
    """Where a job's constraint names other modes of a Xeon Phi than `cluster` and `memory`.

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


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
