"""The task that this process is: its rank, the number of tasks, and the host of the first one.

A launcher (srun, mpiexec, torchrun, `knltrain launch`) starts the same command several times, on
one computer or on many, and sets variables by which each process knows its rank. This module reads
the variables of all launchers, the more specific before the more general: torchrun or mpiexec may
run inside a job of Slurm, whose variables then belong to another launch.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from knltrain.cluster.variables import plain_number
from knltrain.errors import ConfigError

AFFINITY_RUN = "python -m affinity run"
OWN_LAUNCHER = "knltrain launch"
OWN = "KNLTRAIN_TASK"
"""The launcher that writes the variables of `own_variables`."""

_TASKS_AND_TIMES = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


@dataclass(frozen=True, slots=True)
class Task:
    """Process ``rank`` of ``tasks`` that a launcher has started together.

    On its computer, number ``node``, it is ``local_rank`` of ``local_tasks``. ``job`` identifies
    the launch. ``first_host`` is the host of rank 0; None if the launcher does not tell it.
    """

    launcher: str
    rank: int
    tasks: int
    local_rank: int
    local_tasks: int
    node: str
    job: str
    first_host: str | None = None

    @property
    def on_one_computer(self) -> bool:
        """Whether all tasks share a computer."""
        return self.tasks == self.local_tasks

    @property
    def launch(self) -> str:
        """The name of this user's launch on its computers; it is public."""
        return f"knltrain, {self.job}, user {os.getuid()}"

    @property
    def way_to_name_first(self) -> str:
        """How the user can name the host of the first task; ssh does not pass variables on."""
        own = self.launcher == OWN_LAUNCHER
        return "the option --address" if own else "the variable MASTER_ADDR"


def this_task(environment: Mapping[str, str] | None = None) -> Task | None:
    """Return the task that this process is; None if no launcher has started it.

    MASTER_ADDR overrides the launcher's host of the first task. Raises ConfigError if

    - variables contradict each other,
    - the process is in a Slurm job of several computers, but not started by srun,
    - tasks are on several computers, and the first one's host is unknown.
    """
    values = os.environ if environment is None else environment
    found: Task | None = None
    for reader in (_own, _torchrun, _open_mpi, _hydra, _slurm):
        found = reader(values)
        if found is not None:
            break
    else:
        _refuse_batch_script(values)
    found = _within(found, _affinity_run(values))
    if found is None:
        return None
    found = replace(found, first_host=values.get("MASTER_ADDR") or found.first_host)
    if found.tasks == 1:
        return None
    _check(found)
    if found.first_host is None and found.on_one_computer:
        return replace(found, first_host="127.0.0.1")
    if found.first_host is None:
        raise ConfigError(
            f"{found.launcher} has started {found.tasks} tasks on several computers and does not "
            "say where the first of them is: name its computer by the variable MASTER_ADDR"
        )
    return found


def own_variables(rank: int, nodes: int, job: str, first_host: str) -> dict[str, str]:
    """Return the variables of `knltrain launch` for task ``rank``, one task on each node."""
    values = {"RANK": rank, "COUNT": nodes, "JOB": job, "FIRST_HOST": first_host}
    return {f"{OWN}_{name}": str(value) for name, value in values.items()}


def _within(found: Task | None, ranks: Task | None) -> Task | None:
    """Put together a launcher of one task on each computer, and that task's own ranks.

    A launcher of several tasks there was started by a rank, whose variables they inherit.
    """
    if ranks is None or (found is not None and found.local_tasks > 1):
        return found
    if found is None or found.tasks == 1:
        return ranks
    return replace(
        found,
        launcher=f"{found.launcher} with {ranks.launcher}",
        rank=found.rank * ranks.tasks + ranks.rank,
        tasks=found.tasks * ranks.tasks,
        local_rank=ranks.rank,
        local_tasks=ranks.tasks,
    )


def _affinity_run(values: Mapping[str, str]) -> Task | None:
    """Return the task that is a rank of `python -m affinity run`."""
    text = values.get("AFFINITY_RUN")
    if text is None:
        return None
    rank, workers, job = (*text.split("/", 2), "", "", "")[:3]
    numbers = plain_number(rank), plain_number(workers)
    if numbers[0] is None or numbers[1] is None or not job:
        raise ConfigError(
            f"AFFINITY_RUN='{text[:200]}': expected rank/workers/name, as {AFFINITY_RUN} sets it; "
            "unset it, or start this process by that"
        )
    own = numbers[0], numbers[1]
    return Task(AFFINITY_RUN, *own, *own, socket.gethostname(), f"affinity {job}")


def _own(values: Mapping[str, str]) -> Task | None:
    if f"{OWN}_RANK" not in values:
        return None
    number = _numbers(OWN_LAUNCHER, values)
    rank = number(f"{OWN}_RANK")
    return Task(
        OWN_LAUNCHER,
        rank,
        number(f"{OWN}_COUNT"),
        0,
        1,
        str(rank),
        values.get(f"{OWN}_JOB", ""),
        values.get(f"{OWN}_FIRST_HOST"),
    )


def _torchrun(values: Mapping[str, str]) -> Task | None:
    if "TORCHELASTIC_RUN_ID" not in values:
        return None
    node = str(_numbers("torchrun", values)("GROUP_RANK"))
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    # Its own store listens at MASTER_PORT.
    job = f"torchrun {values['TORCHELASTIC_RUN_ID']} {values.get('MASTER_PORT', '')}"
    return _counted("torchrun", values, names, node, job)


def _open_mpi(values: Mapping[str, str]) -> Task | None:
    world = "OMPI_COMM_WORLD"
    if f"{world}_RANK" not in values:
        return None
    names = (f"{world}_RANK", f"{world}_SIZE", f"{world}_LOCAL_RANK", f"{world}_LOCAL_SIZE")
    job = values.get("PMIX_NAMESPACE") or values.get("OMPI_MCA_ess_base_jobid", "")
    listed = values.get("SLURM_JOB_NODELIST")
    host = socket.gethostname()
    return _counted("mpirun of Open MPI", values, names, host, f"Open MPI {job}", listed)


def _hydra(values: Mapping[str, str]) -> Task | None:
    """Return the task of mpiexec of Intel MPI or MPICH."""
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    if names[0] not in values or names[2] not in values:
        return None
    job = f"mpiexec {values.get('I_MPI_HYDRA_UUID', '')} {values.get('SLURM_JOB_ID', '')}"
    listed = values.get("SLURM_JOB_NODELIST")
    return _counted("mpiexec", values, names, socket.gethostname(), job, listed)


def _counted(
    launcher: str,
    values: Mapping[str, str],
    names: tuple[str, str, str, str],
    node: str,
    job: str,
    listed: str | None = None,
) -> Task:
    """Return the task of a launcher with a variable for each of the four numbers."""
    rank, tasks, local_rank, local_tasks = map(_numbers(launcher, values), names)
    return Task(launcher, rank, tasks, local_rank, local_tasks, node, job, _first_of(listed))


def _slurm(values: Mapping[str, str]) -> Task | None:
    if "SLURM_STEP_ID" not in values or "SLURM_PROCID" not in values:
        return None
    number = _numbers("srun", values)
    rank, node = number("SLURM_PROCID"), number("SLURM_NODEID")
    per_node = _tasks_per_node(values.get("SLURM_STEP_TASKS_PER_NODE", "1"))
    return Task(
        "srun",
        rank,
        number("SLURM_STEP_NUM_TASKS"),
        number("SLURM_LOCALID"),
        per_node[node] if node < len(per_node) else 0,
        str(node),
        f"Slurm {values.get('SLURM_JOB_ID', '')}.{values['SLURM_STEP_ID']}"
        f" {values.get('SLURM_RESTART_COUNT', '0')}",
        _first_of(values.get("SLURM_STEP_NODELIST")),
    )


def _first_of(listed: str | None) -> str | None:
    """Return the first computer of Slurm's list for a step or a job."""
    if not listed:
        return None
    from knltrain.cluster.host_list import hosts_of

    return next(iter(hosts_of(listed)), None)


def _tasks_per_node(text: str) -> list[int]:
    """Read Slurm's `2(x3),1`: tasks on the first node, on the second, and so on."""
    from knltrain.cluster.host_list import MOST_HOSTS

    found: list[int] = []
    for part in text.split(","):
        each = _TASKS_AND_TIMES.fullmatch(part)
        times = int(each[2] or 1) if each else 0
        if each is None or len(found) + times > MOST_HOSTS:
            raise ConfigError(
                f"SLURM_STEP_TASKS_PER_NODE={text[:200]}: expected numbers such as 2(x3),1"
            )
        found += [int(each[1])] * times
    return found


def _numbers(launcher: str, values: Mapping[str, str]) -> Callable[[str], int]:
    def number(name: str) -> int:
        text = values.get(name)
        found = plain_number(text)
        if found is None:
            told = "is not set" if text is None else f"is '{text}'"
            raise ConfigError(
                f"{name} {told}, where {launcher} has set other variables of its own: expected "
                "a number; start this process by it, or without any of its variables"
            )
        return found

    return number


def _check(task: Task) -> None:
    if task.rank < task.tasks and task.local_rank < task.local_tasks <= task.tasks:
        return
    raise ConfigError(
        f"{task.launcher} says that this is task {task.rank} of {task.tasks}, on this computer "
        f"{task.local_rank} of {task.local_tasks}: expected numbers below those they are out of"
    )


def _refuse_batch_script(values: Mapping[str, str]) -> None:
    """Raise ConfigError if a Slurm job has several computers, but is started as one process."""
    nodes = plain_number(values.get("SLURM_JOB_NUM_NODES"))
    if nodes is not None and nodes > 1:
        raise ConfigError(
            f"job {values.get('SLURM_JOB_ID', '?')} of Slurm has {nodes} computers, of which this "
            "process would use one: put srun before the command, as in `srun knltrain train "
            "CONFIG`, or ask for --nodes=1"
        )
