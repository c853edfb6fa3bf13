from __future__ import annotations

from pathlib import Path

import pytest

from affinity.process.slurm import (
    SlurmWords,
    bound_by,
    contradicted_constraints,
    slurm_notes,
    slurm_words,
    way_to_more_cpus,
    with_constraint,
)


def test_outside_of_a_job_slurm_says_nothing() -> None:
    assert slurm_words({"SLURM_CPU_BIND": "quiet,mask_cpu:0x3", "HOME": "/root"}) is None


def test_words_of_a_step_are_read() -> None:
    environment = {
        "SLURM_JOB_ID": "4711",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x3,0xC",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPU_BIND_LIST": "0x3,0xC",
        "SLURM_CPU_BIND_VERBOSE": "quiet",
        "SLURM_MEM_BIND_TYPE": "local",
        "SLURM_MEM_BIND_LIST": "",
        "SLURM_CPUS_PER_TASK": "8",
        "SLURM_JOB_CONSTRAINTS": "flat&snc4",
    }
    assert slurm_words(environment) == SlurmWords(
        job="4711",
        cpu_bind="mask_cpu:0x3,0xC",
        mem_bind="local",
        cpus_per_task=8,
        cpus_per_step_task=None,
        constraint="flat&snc4",
    )


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("quiet,mask_cpu:0x3", "mask_cpu:0x3"),
        ("verbose,none", ""),
        ("cores", "cores"),
        ("quiet", ""),
        ("", ""),
        ("none", ""),
    ],
)
def test_binding_is_also_read_from_the_one_variable_that_sums_it_up(value: str, bound: str) -> None:
    words = slurm_words({"SLURM_JOBID": "1", "SLURM_CPU_BIND": value})
    assert words is not None
    assert words.cpu_bind == bound


@pytest.mark.parametrize(
    ("listed", "task", "own"),
    [
        ("mask_cpu:0x3,0xC", "1", "mask_cpu:0xC"),
        ("map_cpu:1,0", "0", "map_cpu:1"),
        ("map_cpu:1,0", "2", "map_cpu:1"),  # Slurm begins again where the list ends.
        ("mask_cpu:0x3,0xC", "", "mask_cpu:0x3,0xC"),
        ("rank", "1", "rank"),
    ],
)
def test_of_a_list_for_all_tasks_only_the_own_word_is_taken(
    listed: str, task: str, own: str
) -> None:
    variables = {"SLURM_CPU_BIND": f"quiet,{listed}", "SLURM_MEM_BIND": f"quiet,{listed}"}
    words = slurm_words({"SLURM_JOB_ID": "1", "SLURM_LOCALID": task, **variables})
    assert words is not None
    assert (words.cpu_bind, words.mem_bind) == (own, own)


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_MEM_BIND_TYPE": "map_mem:", "SLURM_MEM_BIND_LIST": "0,2"},
        {"SLURM_MEM_BIND": "quiet,prefer,map_mem:0,2"},
    ],
)
def test_memory_that_is_only_preferred_is_told_apart_from_bound(variables: dict[str, str]) -> None:
    job = {"SLURM_JOB_ID": "1", "SLURM_LOCALID": "1", "SLURM_MEM_BIND_PREFER": "prefer"}
    words = slurm_words({**job, **variables})
    assert words is not None
    assert words.mem_bind == "prefer,map_mem:2"


@pytest.mark.parametrize(
    ("cpu_bind", "cpus", "who"),
    [
        ("mask_cpu:0xC", (2, 3), "Slurm (--cpu-bind=mask_cpu:0xC)"),
        ("map_cpu:3", (3,), "Slurm (--cpu-bind=map_cpu:3)"),
        ("mask_cpu:0xC", (2,), "affinity mask (taskset, or a launcher) in Slurm job 7"),
        ("map_cpu:3", (2,), "affinity mask (taskset, or a launcher) in Slurm job 7"),
        ("rank_ldom", (2,), "Slurm (--cpu-bind=rank_ldom)"),
        ("mask_cpu:0x3,0xC", (2, 3), "Slurm (--cpu-bind=mask_cpu:0x3,0xC)"),
        ("", (0,), "Slurm job 7, or taskset in it"),
    ],
)
def test_who_bound_the_cpus_is_named_as_far_as_it_can_be_told(
    cpu_bind: str, cpus: tuple[int, ...], who: str
) -> None:
    assert bound_by(SlurmWords("7", cpu_bind), cpus) == who


def test_way_to_more_cpus_is_that_of_a_step_or_that_of_a_batch_script() -> None:
    assert "srun --cpu-bind=none" in way_to_more_cpus(SlurmWords("7", "mask_cpu:0x1"))
    assert "sbatch" in way_to_more_cpus(SlurmWords("7"))


def _controller(folder: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put in scontrol's place what knows only of job 7."""
    program = folder / "scontrol"
    asked = '[ "$*" = "--oneliner show job 7" ]'
    program.write_text(f"#!/bin/sh\n{asked} && echo 'JobId=7 {says} Power='\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("says", "constraint"),
    [("CoreSpec=* Features=flat&hbm DelayBoot=0", "flat&hbm"), ("Features=(null)", ""), ("", "")],
)
def test_constraint_that_no_variable_tells_is_asked_of_the_controller(
    says: str, constraint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _controller(tmp_path, says, monkeypatch)
    assert with_constraint(SlurmWords("7")).constraint == constraint


def test_controller_is_not_asked_for_what_is_known_nor_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _controller(tmp_path, "Features=flat", monkeypatch)
    assert with_constraint(SlurmWords("7", constraint="cache")).constraint == "cache"
    assert with_constraint(SlurmWords("8")).constraint == ""
    monkeypatch.setenv("PATH", str(tmp_path / "missing"))
    assert with_constraint(SlurmWords("7")).constraint == ""


def test_fewer_cpus_than_the_batch_script_was_promised_is_told_with_the_way_out() -> None:
    words = SlurmWords("7", cpus_per_task=8)
    assert list(slurm_notes(words, 1)) == [
        "Slurm job 7 asked for 8 cpus per task, but this process may use 1: "
        "since Slurm 22.05 srun does not take sbatch's -c: "
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, or give srun its own -c"
    ]
    assert "start it with srun -c" in next(slurm_notes(words._replace(cpus_per_step_task=8), 4))


@pytest.mark.parametrize("promised", [None, 4])
def test_cpus_as_promised_are_not_mentioned(promised: int | None) -> None:
    assert list(slurm_notes(SlurmWords("7", cpus_per_task=promised), 4)) == []


@pytest.mark.parametrize(
    ("constraint", "cluster", "memory", "told"),
    [
        ("snc4,flat", "SNC-4", "flat", []),
        ("quad&cache", "all-to-all, hemisphere or quadrant", "cache", []),
        ("snc4&flat", "SNC-4", "cache", ["flat"]),
        ("[snc2&equal]", "SNC-4", "flat", ["SNC-2", "hybrid"]),
        ("snc4|quad", "SNC-2", "flat", []),
        ("haswell", "quadrant", "flat", []),
        ("", "quadrant", "flat", []),
    ],
)
def test_node_in_another_mode_than_the_constraint_asked_for_is_told(
    constraint: str, cluster: str, memory: str, told: list[str]
) -> None:
    words = SlurmWords("7", constraint=constraint)
    lines = list(contradicted_constraints(words, cluster, memory))
    assert [line.partition(" asked for ")[2].split(" ")[0] for line in lines] == told
