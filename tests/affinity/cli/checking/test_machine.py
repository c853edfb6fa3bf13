from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Protocol

import pytest

from affinity import MemoryPlan, Placement, allowed_cpus
from affinity.cli.checking.machine import machine_findings
from affinity.machine.sysfs_devices import DEMOTION
from affinity.process.allowed import AllowedResources
from affinity.process.memory_policy import allowed_memories
from affinity.process.own import encode_placement
from affinity.topology import Topology


class Start(Protocol):
    def __call__(self, *words: str, **environment: str) -> subprocess.Popen[str]: ...


def _check(start: Start, **environment: str) -> tuple[int, list[dict[str, str]]]:
    process = start("-m", "affinity", "check", "--json", **environment)
    told, error = process.communicate(timeout=60)
    assert error == ""
    return process.returncode, json.loads(told)


def test_every_part_of_this_machine_is_checked(start: Start) -> None:
    _, found = _check(start)
    subjects = {finding["subject"] for finding in found}
    assert {"machine", "memories", "allowed cpus", "memory policies", "OpenMP", "hwloc"} <= subjects


def test_worker_that_checks_itself_is_in_its_place(start: Start) -> None:
    words = ("run", "--workers", "1", "--rank", "0", "--", sys.executable, "-m", "affinity")
    process = start("-m", "affinity", *words, "check", "--json")
    told, _ = process.communicate(timeout=60)
    found = json.loads(told)
    assert [f["level"] for f in found if f["subject"] == "placement"][-1] == "ok"


def test_worker_that_is_not_where_it_was_put_fails(start: Start) -> None:
    if len(allowed_cpus()) < 2:
        pytest.skip("to be on more cpus than planned needs two")
    memory = MemoryPlan("strict", "bind", allowed_memories()[:1])
    placement = Placement(0, allowed_cpus()[:1], 1, (0,), memory=memory)
    status, found = _check(start, AFFINITY_PLACEMENT=encode_placement(placement))
    problems = [f["text"] for f in found if (f["subject"], f["level"]) == ("placement", "fail")]
    assert status == 1
    assert any("may run on cpus" in problem for problem in problems)
    assert any("memory policy bind:" in problem for problem in problems)


def test_worker_whose_libraries_count_other_threads_than_its_place_has_is_warned(
    start: Start,
) -> None:
    words = ("run", "--workers", "1", "--rank", "0", "--env", "OMP_NUM_THREADS=77", "--")
    command = (sys.executable, "-m", "affinity", "check", "--json")
    told, _ = start("-m", "affinity", *words, *command).communicate(timeout=60)
    [warning] = [
        found["text"]
        for found in json.loads(told)
        if (found["level"], found["subject"]) == ("warn", "thread counts")
    ]
    assert warning.startswith("OMP_NUM_THREADS=77, but this place is for ")


def test_damaged_placement_is_bad_input(start: Start) -> None:
    process = start("-m", "affinity", "check", AFFINITY_PLACEMENT="{")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert error.startswith("error: AFFINITY_PLACEMENT holds '{'")


def test_notes_on_the_machine_are_told_once(small_vm: Topology) -> None:
    notes = ("sysfs hides the caches", f"the kernel moves pages (/{DEMOTION})")
    found = machine_findings(
        replace(small_vm, notes=notes), AllowedResources(cpus=(0,), mems=(0,)), {}
    )
    told = [finding.text for finding in found if finding.level == "warn"]
    assert told[0] == "sysfs hides the caches"
    assert not any("the kernel moves pages (" in text for text in told)
