from __future__ import annotations

from affinity.cli.checking.finding import Finding
from affinity.cli.checking.surroundings import (
    constraint_findings,
    limit_findings,
    variable_findings,
)
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology


def test_limits_are_told_with_who_made_them(xeon_max: Topology) -> None:
    allowed = AllowedResources(
        cpus=tuple(range(52)), mems=(0, 1, 2, 3), said_by=("cgroup v2 /job: cpus 0-51",),
        notes=("threads on all 52 cpus would be stopped again and again",),
    )  # fmt: skip
    assert list(limit_findings(xeon_max, allowed, {})) == [
        Finding("ok", "allowed cpus", "52 of 208 cpus: 0-51"),
        Finding("ok", "allowed memories", "all 4 memory nodes: 0-3"),
        Finding("note", "limited by", "cgroup v2 /job: cpus 0-51"),
        Finding("warn", "limits", "threads on all 52 cpus would be stopped again and again"),
    ]


def test_hbm_that_may_not_be_used_is_missed(xeon_max: Topology) -> None:
    allowed = AllowedResources(cpus=xeon_max.cpus, mems=(0, 1, 2))
    warned = [found for found in limit_findings(xeon_max, allowed, {}) if found.level == "warn"]
    way_out = "widen the cpuset, or srun --mem-bind=none"
    assert warned == [Finding("warn", "HBM", "not allowed: node 3", way_out)]


def test_limits_of_a_placed_process_are_no_reason_to_warn(xeon_max: Topology) -> None:
    allowed = AllowedResources(
        cpus=(0,), mems=(2,), notes=("the placement keeps this process from node 0",)
    )
    found = list(limit_findings(xeon_max, allowed, {"AFFINITY_PLACEMENT": "{}"}))
    assert [finding.level for finding in found] == ["ok", "ok", "note", "note"]


def test_modes_other_than_the_jobs_are_a_failure(knights_landing: Topology) -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_CONSTRAINTS": "knl,quad,flat"}
    (found,) = constraint_findings(knights_landing, job)
    assert (found.level, found.subject) == ("fail", "Slurm constraint")
    assert "quadrant" in found.text
    assert "SNC-4" in found.text
    fitting = {"SLURM_JOB_ID": "7", "SLURM_JOB_CONSTRAINTS": "knl,snc4,flat"}
    (found,) = constraint_findings(knights_landing, fitting)
    assert (found.level, found.text) == ("note", "job 7 asked for knl,snc4,flat")
    assert list(constraint_findings(knights_landing, {})) == []


def test_variables_that_move_threads_are_to_be_unset() -> None:
    moving, counting = variable_findings(
        {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "x"}
    )
    assert moving.level == "warn"
    assert moving.text.startswith("OMP_PROC_BIND=true: the first library that loads OpenMP")
    assert moving.way_out.startswith("unset OMP_PROC_BIND;")
    assert (counting.level, counting.text) == (
        "note",
        "OMP_NUM_THREADS=1 (torchrun sets 1): run gives each rank numbers of its own",
    )


def test_plain_environment_is_well() -> None:
    (found,) = variable_findings({"HOME": "/root"})
    assert (found.level, found.subject) == ("ok", "OpenMP")
