"""``python -m affinity`` under a real Slurm: what that has bound is kept, and told."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from affinity import physical_cores, read_allowed, read_topology
from affinity.cpulist import format_cpulist, parse_cpulist

pytestmark = pytest.mark.slow

AFFINITY = (sys.executable, "-m", "affinity")
MASK = "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status"
MASK_THEN = ("sh", "-c", f'{MASK}; exec "$@"', "sh")
"""Before what follows, the kernel's own word on the same process."""

MARK = "AFFINITY_TEST_MARK"
PATIENCE_SECONDS = 20.0


class Slurm(Protocol):
    confined: bool

    def __call__(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]: ...
    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]: ...
    def batch(self, script: str, *options: str) -> str: ...
    def state_of(self, job: str) -> str: ...


@pytest.fixture
def slurm(slurm_cluster: Slurm) -> Slurm:
    if len(physical_cores(read_topology(), read_allowed().cpus)) < 2:
        pytest.skip("two tasks with a core each need two cores")
    return slurm_cluster


def _told(done: subprocess.CompletedProcess[str], status: int = 0) -> str:
    assert done.returncode == status, done
    return done.stdout


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _mask_and_rest(text: str) -> tuple[tuple[int, ...], str]:
    mask, _, rest = text.partition("\n")
    return parse_cpulist(mask), rest


def _all_cpus() -> str:
    return format_cpulist(read_allowed().cpus)


def _mask_word(cpus: tuple[int, ...]) -> str:
    return f"mask_cpu:{sum(1 << cpu for cpu in cpus):#x}"


ONE_CORE = ("srun", "-n1", "-c1", "--cpu-bind=cores")


def test_worker_is_put_on_the_one_core_that_slurm_has_bound(slurm: Slurm) -> None:
    words = ("plan", "--workers", "1", "--json")
    cpus, plan = _mask_and_rest(_told(slurm(*ONE_CORE, *MASK_THEN, *AFFINITY, *words)))
    (worker,) = json.loads(plan)["workers"]
    assert tuple(worker["cpus"]) == cpus
    assert len(cpus) < len(read_allowed().cpus)


def test_show_and_check_say_that_slurm_bound_it_and_to_what(slurm: Slurm) -> None:
    for word in ("show", "check"):
        cpus, text = _mask_and_rest(_told(slurm(*ONE_CORE, *MASK_THEN, *AFFINITY, word)))
        who = f"Slurm (--cpu-bind={_mask_word(cpus)}): cpus {format_cpulist(cpus)} of {_all_cpus()}"
        assert re.search(rf"limited by +{re.escape(who)}", _one_line(text)), text


@pytest.mark.parametrize(
    "options",
    [
        "-c1",
        "-c1 --exclusive",
        "-c1 --overlap",
        "-c1 --hint=nomultithread",
        "-c1 -m block:block",
        "-c1 -m cyclic:cyclic --cpu-bind=threads",
        "--exclusive --cpu-bind=map_cpu:1,0",
        "--exclusive --cpu-bind=mask_cpu:0x2,0x1",
        "--exclusive --cpu-bind=rank",
    ],
)
def test_tasks_keep_what_each_was_bound_to_and_name_only_their_own(
    slurm: Slurm, options: str, tmp_path: Path
) -> None:
    # Each into a file of its own: srun mixes the lines of tasks.
    step = ("srun", "-n2", "-N1", *options.split(), f"--output={tmp_path}/%t")
    _told(slurm(*step, *MASK_THEN, *AFFINITY, "show", "--json"))
    masks = []
    for task in ("0", "1"):
        cpus, text = _mask_and_rest((tmp_path / task).read_text())
        allowed = json.loads(text)["allowed"]
        assert tuple(allowed["cpus"]) == cpus
        (who,) = allowed["said_by"]
        assert re.match(r"Slurm \(--cpu-bind=(rank|(map|mask)_cpu:\w+)\): cpus ", who)
        masks.append(cpus)
    assert set(masks[0]).isdisjoint(masks[1])
    if "_cpu:" in options:
        assert masks == [(1,), (0,)]


def test_rank_started_in_a_task_stays_within_its_core(slurm: Slurm, tmp_path: Path) -> None:
    run = (*AFFINITY, "run", "--workers", "1", "--", "sh", "-c", MASK)
    _told(slurm("srun", "-n2", "-c1", f"--output={tmp_path}/%t", *MASK_THEN, *run))
    seen = [(tmp_path / task).read_text().splitlines() for task in ("0", "1")]
    assert all(task == rank for task, rank in seen)
    assert seen[0] != seen[1]


def test_two_workers_on_a_core_are_refused_with_slurms_word_and_the_way_out(slurm: Slurm) -> None:
    done = slurm(*ONE_CORE, *AFFINITY, "run", "--workers", "2", "--", "true")
    assert done.returncode == 2
    assert "2 workers asked for, but the allowed cpus" in done.stderr
    assert "(Slurm (--cpu-bind=mask_cpu:0x" in done.stderr
    assert "hold 1 physical core: use --workers 1, or have Slurm give each task" in done.stderr
    # And these ways out lead out.
    run = (*AFFINITY, "run", "--workers", "2", "--", "echo", "{cpus}")
    cores = len(_told(slurm("srun", "-n1", "-c2", *run)).split())
    assert cores == 2


def test_tasks_that_slurm_did_not_bind_take_the_places_of_their_numbers(slurm: Slurm) -> None:
    rank = (*AFFINITY, "run", "--workers", "2", "--rank", "auto", "--", "sh", "-c", MASK)
    unbound = ("srun", "-N1", "-n2", "--exclusive", "--cpu-bind=none", "--mem-bind=none")
    first, second = map(parse_cpulist, _told(slurm(*unbound, *rank)).split())
    assert set(first).isdisjoint(second)
    assert sorted(first + second) == list(read_allowed().cpus)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("local", "Slurm (--mem-bind=local): memory policy bind:0"),
        ("prefer,local", "Slurm (--mem-bind=prefer,local): memory policy preferred:0"),
        ("map_mem:0", "Slurm (--mem-bind=map_mem:0): memory policy bind:0"),
    ],
)
def test_memory_policy_that_slurm_set_is_read_from_the_kernel_and_told(
    slurm: Slurm, asked: str, told: str
) -> None:
    if read_allowed().mems != (0,):
        pytest.skip("written for a machine with one memory node")
    show = _told(slurm("srun", "-n1", f"--mem-bind={asked}", *AFFINITY, "show"))
    assert f"limited by {told}" in _one_line(show)


@pytest.mark.parametrize("options", [(), ("--mem-bind=none",)])
def test_memory_that_slurm_left_alone_is_not_mentioned(
    slurm: Slurm, options: tuple[str, ...]
) -> None:
    show = _told(slurm("srun", "-n1", *options, *AFFINITY, "show"))
    assert "limited by Slurm (--cpu-bind" in show
    assert "mem-bind" not in show
    assert "memory policy" not in show


def test_batch_script_is_bound_by_the_job_though_no_variable_says_how(slurm: Slurm) -> None:
    show = shlex.join((*AFFINITY, "show"))
    told = _one_line(slurm.batch(f"echo job $SLURM_JOB_ID.; {show}", "-n1", "-c1"))
    job = re.match(r"job (\d+)\.", told)
    assert job
    assert f"limited by Slurm job {job[1]}, or taskset in it: cpus " in told


def test_step_with_fewer_cpus_than_its_batch_script_says_how_to_hand_them_on(slurm: Slurm) -> None:
    show = shlex.join(("srun", "--exact", *AFFINITY, "show"))
    handed_on = "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"
    told = slurm.batch(f"{show}\necho ======\n{handed_on}\n{show}", "-n1", "-c2")
    before, after = map(_one_line, told.split("======"))
    assert "asked for 2 cpus per task, but this process may use 1: since Slurm 22.05 srun" in before
    assert handed_on in before
    assert "asked for" not in after


def test_taskset_in_a_step_is_not_taken_for_slurms_binding(slurm: Slurm) -> None:
    step = ("srun", "-n1", "-c2", "taskset", "-c", "0", *AFFINITY, "show")
    told = _one_line(_told(slurm(*step)))
    assert "limited by affinity mask (taskset, or a launcher) in Slurm job" in told


def test_constraint_of_a_job_is_held_against_the_machine(slurm: Slurm) -> None:
    modes = read_topology().modes
    if modes is None or modes.memory == "flat":
        pytest.skip("this machine has flat memory")
    # Slurm gives this node the features of a Xeon Phi in flat mode, which it is not.
    done = slurm("srun", "-n1", "--constraint=flat", *AFFINITY, "check")
    assert done.returncode == 1
    assert re.search(
        r"FAIL Slurm constraint Slurm job \d+ asked for flat \(constraint 'flat'\), but this node "
        rf"is {re.escape(modes.memory)}:",
        _one_line(done.stdout),
    )


def test_constraint_that_says_nothing_of_modes_is_reported(slurm: Slurm) -> None:
    told = _one_line(_told(slurm("srun", "-n1", "--constraint=bigmem", *AFFINITY, "check")))
    assert re.search(r"note Slurm constraint job \d+ asked for bigmem ", told)


def test_cpuset_of_a_job_is_named_and_kept_where_slurm_sets_no_mask(slurm: Slurm) -> None:
    if not slurm.confined:
        pytest.skip("Slurm cannot make cpusets here: it needs control groups of version 1")
    step = ("srun", "--partition=confined", "-n1", "-c1", "--cpu-bind=none")
    cpus, text = _mask_and_rest(_told(slurm(*step, *MASK_THEN, *AFFINITY, "show", "--json")))
    allowed = json.loads(text)["allowed"]
    assert tuple(allowed["cpus"]) == cpus
    (who,) = allowed["said_by"]
    assert re.fullmatch(rf"cgroup v1 /slurm_\S+/step_0: cpus {cpus[0]}\S* of {_all_cpus()}", who)
    refused = slurm(*step, *AFFINITY, "plan", "--workers", "2")
    assert refused.returncode == 2
    assert "cgroup v1 /slurm_" in refused.stderr
    assert "have Slurm give each task more cpus (srun -c)" in refused.stderr


STUBBORN = 'trap "" TERM INT; echo $SLURM_JOB_ID; exec sleep 1000'
"""What ignores SIGTERM. It starts nothing new: Slurm's proctrack/linuxproc, which kills the tree of
processes that it has just read, would miss that."""

KILLED, TERMINATED = 128 + signal.SIGKILL, 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("scancel", "status"),
    [
        ("{job}", TERMINATED),
        ("--signal=TERM {job}.0", TERMINATED),
        ("{job}.0", KILLED),
        ("--signal=KILL {job}.0", KILLED),
        ("", KILLED),
    ],
    ids=["job", "SIGTERM to the step", "step", "SIGKILL to the step", "SIGTERM to srun"],
)
def test_no_rank_survives_the_end_of_its_step(slurm: Slurm, scancel: str, status: int) -> None:
    mark = uuid.uuid4().hex
    run = ("run", "--workers", "2", "--grace-seconds", "0.5", "--", "sh", "-c", STUBBORN)
    step = slurm.start("srun", "-n1", "-c2", *AFFINITY, *run, **{MARK: mark})
    try:
        assert step.stdout
        job, same_job = step.stdout.readline().strip(), step.stdout.readline().strip()
        assert job == same_job  # Both ranks have begun.
        if scancel:
            _told(slurm("scancel", *scancel.format(job=job).split()))
        else:
            step.terminate()
        _, error = step.communicate(timeout=PATIENCE_SECONDS)
        assert step.returncode == status, error
        assert _none_is_left(mark)
    finally:
        step.kill()
        step.communicate()


def _marked(mark: str) -> dict[int, str]:
    """Names of the processes with `mark` in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "comm").read_text().strip()
    return found


def _none_is_left(mark: str) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := _marked(mark):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)
    return True
