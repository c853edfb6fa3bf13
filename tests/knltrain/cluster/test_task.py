"""Who a process is, by the variables of each launcher as these really set them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from knltrain.cluster.task import Task, own_variables, this_task
from knltrain.errors import ConfigError

SRUN = {
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "n[07-08]",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NODELIST": "n[07-08]",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "abc",
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "n07",
    "MASTER_PORT": "29500",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
}
HYDRA = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
}


AFFINITY = {"AFFINITY_RUN": "2/4/77-abc"}


def test_ranks_of_affinity_run_are_tasks_of_one_computer() -> None:
    host = socket.gethostname()
    task = Task("python -m affinity run", 2, 4, 2, 4, host, "affinity 77-abc", "127.0.0.1")
    assert this_task(AFFINITY) == task
    of_one = {**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}
    alone = {**of_one, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    assert this_task({**alone, **AFFINITY}) == task


def test_ranks_of_affinity_run_on_several_computers_are_counted_through() -> None:
    outer = {**SRUN, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    outer = {**outer, "SLURM_PROCID": "1", "SLURM_LOCALID": "0"}
    launcher = "srun with python -m affinity run"
    found = this_task({**outer, **AFFINITY})
    assert found == Task(launcher, 6, 8, 2, 4, "1", "Slurm 12.0 0", "n07")


def test_a_launcher_that_a_rank_has_started_counts() -> None:
    assert this_task({**HYDRA, **AFFINITY}) == this_task(HYDRA)


def test_a_rank_of_one_is_no_task() -> None:
    assert this_task({"AFFINITY_RUN": "0/1/77"}) is None


@pytest.mark.parametrize("text", ["", "1", "1/2", "1/2/", "a/2/x", "1/-2/x", "-1/2/x"])
def test_damaged_words_of_affinity_run_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"AFFINITY_RUN='.*': expected rank/workers/name"):
        this_task({"AFFINITY_RUN": text})


def test_a_rank_beyond_the_workers_is_refused() -> None:
    with pytest.raises(ConfigError, match="python -m affinity run says that this is task 4 of 4"):
        this_task({"AFFINITY_RUN": "4/4/77"})


def test_process_that_nothing_has_started_is_no_task() -> None:
    assert this_task({"HOME": "/", "RANK": "3", "MASTER_ADDR": "n1"}) is None


def test_srun_says_all() -> None:
    task = this_task(SRUN)
    assert task == Task("srun", 3, 4, 1, 2, "1", "Slurm 12.0 0", "n07")


def test_requeued_job_is_another_launch() -> None:
    again = this_task({**SRUN, "SLURM_RESTART_COUNT": "1"})
    first = this_task(SRUN)
    assert again is not None and first is not None and again.job != first.job


def test_torchrun_says_all() -> None:
    task = this_task(TORCHRUN)
    assert task == Task("torchrun", 1, 2, 0, 1, "1", "torchrun abc 29500", "n07")


def test_open_mpi_needs_to_be_told_where_the_first_task_is() -> None:
    with pytest.raises(ConfigError, match="name its computer by the variable MASTER_ADDR"):
        this_task(OPEN_MPI)
    task = this_task({**OPEN_MPI, "MASTER_ADDR": "10.0.0.1"})
    assert task is not None
    assert (task.rank, task.tasks, task.first_host) == (1, 2, "10.0.0.1")
    assert task.node == socket.gethostname()


def test_tasks_of_one_computer_find_each_other_there() -> None:
    task = this_task(HYDRA)
    assert task is not None
    assert (task.rank, task.local_rank, task.first_host) == (1, 1, "127.0.0.1")


def test_mpi_in_a_job_of_slurm_has_the_jobs_first_computer() -> None:
    task = this_task({**OPEN_MPI, "SLURM_JOB_NODELIST": "n[3-4]", "SLURM_JOB_NUM_NODES": "2"})
    assert task is not None
    assert task.first_host == "n3"


@pytest.mark.parametrize("launcher", [TORCHRUN, OPEN_MPI, HYDRA])
def test_launcher_inside_a_step_of_slurm_counts(launcher: dict[str, str]) -> None:
    task = this_task({**SRUN, **launcher})
    assert task is not None
    assert (task.rank, task.tasks) == (1, 2)


def test_only_task_of_a_launch_is_none_of_several() -> None:
    alone = {**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NODEID": "0"}
    assert this_task({**alone, "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1"}) is None


def test_batch_script_with_several_computers_is_told_to_put_srun_first() -> None:
    script = {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "3", "SLURM_PROCID": "0"}
    with pytest.raises(ConfigError, match=r"job 12 of Slurm has 3 computers.*put srun before"):
        this_task(script)
    assert this_task({**script, "SLURM_JOB_NUM_NODES": "1"}) is None


def test_our_own_launcher_is_understood() -> None:
    task = this_task(own_variables(1, 2, "j", "n1"))
    assert task == Task("knltrain launch", 1, 2, 0, 1, "1", "j", "n1")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"SLURM_STEP_NUM_TASKS": ""}, "SLURM_STEP_NUM_TASKS is ''"),
        ({"SLURM_LOCALID": "x"}, "SLURM_LOCALID is 'x', where srun has set other variables"),
        ({"SLURM_PROCID": "4"}, "task 4 of 4"),
        ({"SLURM_STEP_TASKS_PER_NODE": "two"}, "SLURM_STEP_TASKS_PER_NODE=two"),
        ({"SLURM_NODEID": "5"}, "on this computer 1 of 0"),
    ],
)
def test_variables_that_make_no_sense_are_named(changed: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        this_task({**SRUN, **changed})
    assert says in str(error.value)


def test_variable_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="LOCAL_RANK is not set, where torchrun has set other"):
        this_task({name: value for name, value in TORCHRUN.items() if name != "LOCAL_RANK"})


TELL = """
import dataclasses, json, sys
from knltrain.cluster.task import this_task
sys.stdout.write(json.dumps(dataclasses.asdict(this_task())) + "\\n")
"""


def _started(*launcher: str) -> list[dict[str, object]]:
    foreign = ("SLURM", "PMI", "MPI_", "OMPI", "TORCHELASTIC", "MASTER_")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(foreign)
    }
    environment["LD_LIBRARY_PATH"] = str(Path(sys.prefix) / "lib")
    done = subprocess.run(
        [*launcher, sys.executable, "-c", TELL],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sorted(found, key=lambda task: int(task["rank"]))


def _check_two(tasks: list[dict[str, object]]) -> None:
    assert [(task["rank"], task["tasks"], task["local_rank"]) for task in tasks] == [
        (0, 2, 0),
        (1, 2, 1),
    ]
    assert {task["local_tasks"] for task in tasks} == {2}
    assert len({(task["job"], task["first_host"], task["node"]) for task in tasks}) == 1


def test_real_mpiexec_is_understood() -> None:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("no mpiexec here: pip install impi-rt")
    _check_two(_started(str(mpiexec), "-n", "2"))


@pytest.mark.slow
def test_real_torchrun_is_understood() -> None:
    torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    if torchrun is None:
        pytest.skip("no torchrun here")
    _check_two(_started(torchrun, "--standalone", "--nproc-per-node=2", "--no-python"))


@pytest.mark.parametrize("text", ["2(x99999999999)", "2(x999999999)", "1(x2)(x3)", "²", "", "2)"])
def test_tasks_per_node_that_slurm_never_writes_are_refused(text: str) -> None:
    values = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NODEID": "0"}
    values |= {"SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"}
    with pytest.raises(ConfigError, match=r"expected numbers such as 2\(x3\),1"):
        this_task({**values, "SLURM_STEP_TASKS_PER_NODE": text})


@pytest.mark.parametrize("text", ["²", "٣", "9" * 5000, "1_0", "-1", " 1"])
def test_what_python_or_unicode_count_as_numbers_is_none_of_a_launcher(text: str) -> None:
    values = {"KNLTRAIN_TASK_RANK": text, "KNLTRAIN_TASK_COUNT": "2"}
    with pytest.raises(ConfigError, match="KNLTRAIN_TASK_RANK is '"):
        this_task(values)
    assert this_task({"SLURM_JOB_NUM_NODES": text}) is None


def test_list_of_no_hosts_names_no_first_one() -> None:
    values = {f"OMPI_COMM_WORLD_{name}": "0" for name in ("RANK", "LOCAL_RANK")}
    values |= {f"OMPI_COMM_WORLD_{name}": "2" for name in ("SIZE", "LOCAL_SIZE")}
    task = this_task({**values, "SLURM_JOB_NODELIST": ","})
    assert task is not None
    assert task.first_host == "127.0.0.1"
