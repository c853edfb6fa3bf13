from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

import affinity
from affinity import Placement, PlacementError, allowed_cpus
from affinity.cli.run import bindings_table, own_rank, rank_command
from affinity.cpulist import format_cpulist
from affinity.placement.plan import MemoryPlan, Plan
from affinity.process.memory_policy import allowed_memories
from affinity.process.own import own_placement
from affinity.topology import Topology


class Start(Protocol):
    def __call__(self, *words: str, **environment: str) -> subprocess.Popen[str]: ...


def _end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    told, error = process.communicate(timeout=60)
    return process.returncode, told, error


# One write for a line: print makes two where Python is unbuffered, between which others write.
_SEEN = (
    "import json, os, sys; sys.stdout.write(json.dumps([sys.argv[1:], "
    "sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'], "
    "os.environ['AFFINITY_PLACEMENT'], os.environ.get('WHO')]) + '\\n')"
)


@pytest.mark.usefixtures("two_cores")
def test_every_rank_is_in_its_place_and_knows_it(start: Start) -> None:
    words = ("run", "--workers", "2", "--env", "WHO={rank}/{workers}", "--")
    command = (sys.executable, "-c", _SEEN, "{rank}", "{cpus}", "{nodes}", "{x} {{rank}}")
    status, told, error = _end(start("-m", "affinity", *words, *command))
    assert (status, error) == (0, "")
    seen = sorted(json.loads(line) for line in told.splitlines())
    everywhere: list[int] = []
    for rank, (words_, cpus, threads, placement, who) in enumerate(seen):
        own = own_placement({"AFFINITY_PLACEMENT": placement})
        assert own is not None
        assert (own.rank, list(own.cpus), str(own.threads)) == (rank, cpus, threads)
        nodes = format_cpulist(own.numa_nodes)
        assert words_ == [str(rank), format_cpulist(cpus), nodes, f"{{x}} {{{rank}}}"]
        assert who == f"{rank}/2"
        everywhere += cpus
    assert sorted(everywhere) == list(allowed_cpus())


def test_ranks_of_one_run_know_who_they_are_and_those_of_another_have_another_name(
    start: Start,
) -> None:
    words = ("-m", "affinity", "run", "--workers", "1", "--", "sh", "-c", "echo $AFFINITY_RUN")
    told = [_end(start(*words))[1].strip().split("/") for _ in range(2)]
    assert [each[:2] for each in told] == [["0", "1"]] * 2
    assert told[0][2] != told[1][2]


def test_one_rank_alone_becomes_the_command(start: Start) -> None:
    words = ("run", "--workers", "1", "--rank", "0", "--", "sh", "-c", "echo $$ {rank}")
    process = start("-m", "affinity", *words)
    assert _end(process) == (0, f"{process.pid} 0\n", "")


@pytest.mark.usefixtures("two_cores")
def test_rank_is_taken_from_the_launcher(start: Start) -> None:
    words = ("run", "--workers", "2", "--rank", "auto", "--", "echo", "{rank}")
    assert _end(start("-m", "affinity", *words, SLURM_LOCALID="1")) == (0, "1\n", "")


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("--workers", "1"), 2, "error: no command given: write it after --"),
        (("--workers", "1", "--"), 2, "error: no command given: write it after --"),
        (("--workers", "1", "--", ""), 2, "error: no command given: write it after --"),
        (("--workers", "1", "true"), 2, "arguments: true; a command stands behind --; see python"),
        (("--workers", "1", "--rank", "0", "--tag", "--", "true"), 2, "--tag does not work with"),
        (("--workers", "1", "--rank", "0", "--report-bindings", "--", "true"), 2,
         "--report-bindings does not work with --rank"),
        (("--", "true"), 2, "error: how many workers?"),
        (("--workers", "1", "--rank", "1", "--", "true"), 2, "no rank 1: the only one is 0"),
        (("--workers", "1", "--policy", "strict", "--need", "w=900T", "--", "true"), 2, "strict"),
        (("--workers", "1", "--", "no-such-command"), 127, "'no-such-command' is not found"),
        (("--workers", "1", "--", "/proc/version"), 126, "'/proc/version' cannot be run: "),
    ],
)  # fmt: skip
def test_run_that_cannot_start_says_why(
    words: tuple[str, ...], status: int, reason: str, start: Start
) -> None:
    returned, told, error = _end(start("-m", "affinity", "run", *words))
    assert (returned, told) == (status, "")
    assert reason in error


def test_inherited_placing_of_threads_is_told(start: Start) -> None:
    words = ("-m", "affinity", "run", "--workers", "1", "--", "true")
    status, _, error = _end(start(*words, OMP_PROC_BIND="true"))
    assert status == 0
    assert "OMP_PROC_BIND=true is inherited, and makes OpenMP move threads" in error


def test_threads_are_pinned_on_request(start: Start) -> None:
    words = ("run", "--workers", "1", "--pin-threads", "--", "sh", "-c", "echo $OMP_PLACES")
    _, told, error = _end(start("-m", "affinity", *words, OMP_PROC_BIND="true"))
    assert error == ""
    if len(allowed_cpus()) > 1:
        assert told.startswith("{")


@pytest.mark.slow
def test_bindings_are_reported_as_asked_and_as_seen(start: Start) -> None:
    words = ("run", "--workers", "1", "--report-bindings", "--", "sleep", "1.5")
    status, _, error = _end(start("-m", "affinity", *words))
    assert status == 0
    asked, seen = error.split("affinity run: where each rank was seen to be\n")
    assert asked.startswith("affinity run: where each rank is to be\nrank  cpus ")
    cpus = format_cpulist(allowed_cpus())
    assert asked.splitlines()[-1].split()[:2] == ["0", cpus]
    assert seen.splitlines()[2].split()[:3] == ["0", cpus, "1"]
    assert "DRAM" in seen or "in " in seen


_FORBID_POLICIES = """
import errno, os
from affinity.process import kernel_call
ask = kernel_call.kernel_call
def answer(name, *arguments):
    if name == "set_mempolicy":
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    return ask(name, *arguments)
kernel_call.kernel_call = answer
"""


@pytest.mark.usefixtures("two_cores")
def test_what_all_ranks_have_to_say_at_their_start_is_said_once(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FORBID_POLICIES, encoding="utf-8")
    # Split with a need in DRAM gives each rank a policy on every machine.
    words = "run --workers 2 --policy split --need w=1M@dram -- echo {rank}"
    path = f"{tmp_path}:{Path(affinity.__file__).parents[1]}"
    status, told, error = _end(start("-m", "affinity", *words.split(), PYTHONPATH=path))
    assert (status, sorted(told.splitlines())) == (0, ["0", "1"])
    said = [line for line in error.splitlines() if "cannot be set: EPERM" in line]
    assert len(said) == 1
    assert said[0].startswith("affinity run: ranks 0-1: memory policy preferred:")
    assert said[0].endswith("going on without it")
    assert "affinity.exec" not in error


@pytest.mark.slow
def test_strict_run_that_is_seen_elsewhere_fails_though_its_command_ends_well(
    start: Start,
) -> None:
    if len(allowed_cpus()) < 2:
        pytest.skip("to go elsewhere takes a second cpu")
    cpu, other = allowed_cpus()[:2]
    script = f"import os, time; os.sched_setaffinity(0, [{other}]); time.sleep(1.5)"
    words = ("--workers", "1", "--cpus", str(cpu), "--report-bindings")
    command = ("-m", "affinity", "run", *words, "--", sys.executable, "-c", script)
    loose = start(*command)
    strict = start(*command[:3], "--policy", "strict", *command[3:])
    status, _, error = _end(loose)
    assert status == 0
    assert f"may run on cpus {other}, but worker 0 has {cpu}" in error
    status, _, error = _end(strict)
    assert status == 1
    assert error.endswith("affinity run: rank 0 out of place, so the status is 1\n")


_ARENA_ON_NO_NODE = """
import argparse, sys
from affinity import Arena, MemoryPlan, Placement, Plan, allowed_cpus, read_allowed, read_topology
from affinity.cli.run import run_plan
home = (read_allowed().mems or (0,))[:1]
arenas = (Arena("weights", "preferred", (77,), int(sys.argv[1])),)
memory = MemoryPlan("split", "preferred", home, home, arenas=arenas)
plan = Plan((Placement(0, allowed_cpus(), 1, (0,), memory=memory),))
options = argparse.Namespace(
    env=[], preload=[], rank=None, command=["sh", "-c", "sleep 1.5; true"], pin_threads=False,
    report_bindings=True, tag=False, grace_seconds=10.0,
)
sys.exit(run_plan(read_topology(), plan, options))
"""


@pytest.mark.slow
def test_run_that_has_nothing_where_it_was_to_be_fails_under_any_policy(start: Start) -> None:
    held, not_yet = (start("-c", _ARENA_ON_NO_NODE, need) for need in ("4096", str(2**40)))
    status, _, error = _end(held)
    assert status == 1
    assert error.count("on node 77, where arena weights (4.0 KiB) was to be") == 1
    assert error.endswith("affinity run: rank 0 out of place, so the status is 1\n")
    status, _, error = _end(not_yet)
    assert status == 0
    assert error.count("on node 77, where arena weights (1.0 TiB) was to be") == 1


@pytest.mark.usefixtures("two_cores")
def test_strict_ranks_that_were_never_seen_are_named(start: Start) -> None:
    words = ("run", "--workers", "2", "--report-bindings", "--policy")
    strict = start("-m", "affinity", *words, "strict", "--", "true")
    loose = start("-m", "affinity", *words, "spill", "--", "true")
    status, _, error = _end(strict)
    assert status == 0
    assert "strict: nothing is proved of ranks 0-1, which ended before the first look" in error
    assert "judge(own_placement(), observed_binding())" in error
    status, _, error = _end(loose)
    assert (status, "nothing is proved" in error) == (0, False)


_SHOW_POLICY = "from affinity.process.memory_policy import memory_policy; print(memory_policy())"


@pytest.mark.parametrize(
    ("policy", "inherited", "kept"),
    [("spill", "interleave", False), ("spill", "bind", True), ("none", "interleave", True)],
)
def test_inherited_policy_is_dropped_where_the_plan_has_none(
    policy: str, inherited: str, kept: bool, start: Start
) -> None:
    node = allowed_memories()[0]
    plan = json.loads(_end(start("-m", "affinity", "plan", "--workers", "1", "--json"))[1])
    if plan["workers"][0]["memory"]["mode"] != "default":
        pytest.skip("on this machine a plan says where memory is to be")
    words = ("run", "--workers", "1", "--policy", policy, "--", sys.executable, "-c", _SHOW_POLICY)
    before = ("--cpus", format_cpulist(allowed_cpus()), "--memory", f"{inherited}:{node}")
    run = start("-m", "affinity.exec", *before, "--", sys.executable, "-m", "affinity", *words)
    assert _end(run) == (0, f"{inherited}:{node}\n" if kept else "default\n", "")


def test_library_is_preloaded(start: Start) -> None:
    words = ("run", "--workers", "1", "--preload", "m", "--", "sh", "-c", "echo $LD_PRELOAD")
    status, told, _ = _end(start("-m", "affinity", *words))
    assert status == 0
    assert os.path.basename(told.strip()).startswith("libm.so")  # noqa: PTH119


def test_command_of_a_rank_names_its_cpus_memory_and_variables() -> None:
    memory = MemoryPlan("strict", "bind", (2,), (2,), hbm=True)
    worker = Placement(0, (0, 1), 2, (0,), communication_cpus=(8, 9), memory=memory)
    variables = {"CCL_WORKER_AFFINITY": "{communication}"}
    command = rank_command(Plan((worker,)), 0, ["./train", "{memory}"], variables, False, 77, 5)
    assert command[:5] == [
        sys.executable, "-m", "affinity.exec", "--cpus=0-1", "--env=OMP_NUM_THREADS=2",
    ]  # fmt: skip
    assert {"--memory=bind:2", "--memory-required", "--die-with-parent=77", "--say-to=5"} < set(
        command
    )
    assert "--env=CCL_WORKER_AFFINITY=8-9" in command
    assert command[-3:] == ["--", "./train", "2"]


def test_bindings_table_has_a_line_for_each_rank(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    lines = bindings_table(knights_landing, knights_plan).splitlines()
    assert len(lines) == 6
    assert lines[3] == (
        "   1  18-35,86-103,154-171,222-239        18  MCDRAM 4 → DRAM 1     preferred 4"
    )


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"SLURM_LOCALID": "3", "LOCAL_RANK": "0"}, 3),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 1),
        ({"MPI_LOCALRANKID": "2"}, 2),
        ({"PALS_LOCAL_RANKID": "0"}, 0),
    ],
)
def test_launchers_say_who_one_is(variables: Mapping[str, str], rank: int) -> None:
    assert own_rank("auto", 4, variables) == rank


def test_rank_without_a_launcher_is_refused_naming_the_variables() -> None:
    with pytest.raises(PlacementError, match="none of SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK"):
        own_rank("auto", 4, {})


def test_rank_beyond_the_workers_is_refused() -> None:
    with pytest.raises(PlacementError) as caught:
        own_rank("auto", 2, {"SLURM_LOCALID": "2"})
    assert str(caught.value) == "there is no rank 2: there are 0 to 1, for 2 workers"
