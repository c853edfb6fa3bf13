from __future__ import annotations

import pytest

from affinity.process.slurm import (
    SlurmWords,
    contradicted_constraints,
    slurm_notes,
    slurm_words,
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
