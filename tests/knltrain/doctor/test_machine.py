from __future__ import annotations

from pathlib import Path

import pytest

from affinity import AllowedResources
from affinity.topology import Core, NumaNode, Topology
from knltrain.doctor import machine
from vectorized_ops.numba.compiling import compiler


def _topology(isa: tuple[str, ...]) -> Topology:
    cores = tuple(Core(core, 0, 0, (core, core + 4)) for core in range(4))
    nodes = (
        NumaNode(0, tuple(range(8)), 96 * 2**30, 90 * 2**30, "dram", "next to cpus"),
        NumaNode(1, (), 512 * 2**20, 256 * 2**20, "hbm", "an old oak said so"),
        NumaNode(2, (), 2**30, 2**30, "unknown", "nobody knows"),
    )
    return Topology("Phi", "GenuineIntel", isa, cores, nodes, ("cores: here", "memory: there"))


def test_processor_cores_cpus_and_memories_are_told() -> None:
    findings = list(machine.machine_findings(_topology(("avx2", "avx512f")), (0, 4, 5)))
    assert {finding.subject: finding.text for finding in findings} == {
        "processor": "Phi (GenuineIntel)",
        "vector instructions": "avx2, avx512f",
        "bfloat16": "no avx512_bf16: backend.precision = 'bfloat16' would be slower than float32",
        "cores": "4 physical cores with 8 hardware threads in 1 package",
        "allowed cpus": "0,4-5: 2 physical cores",
        "NUMA node 0": "90.0 GiB free of 96.0 GiB DRAM, cpus 0-7 (next to cpus)",
        "NUMA node 1": "256 MiB free of 512 MiB HBM, no cpus (an old oak said so)",
        "NUMA node 2": "1.0 GiB free of 1.0 GiB memory of unknown kind, no cpus (nobody knows)",
        "sources": "cores: here; memory: there",
    }
    assert {finding.level for finding in findings} == {"ok"}


@pytest.mark.parametrize(("isa", "level"), [((), "warn"), (("avx",), "warn"), (("asimd",), "ok")])
def test_processor_without_wide_vectors_is_worth_a_warning(
    isa: tuple[str, ...], level: str
) -> None:
    findings = {f.subject: f for f in machine.machine_findings(_topology(isa), (0,))}
    assert findings["vector instructions"].level == level


@pytest.mark.parametrize(
    ("isa", "told"),
    [
        (("avx512f", "avx512_bf16"), "up to two products for each of float32"),
        (("avx512_bf16", "amx_bf16"), "up to 16 products for each of float32"),
    ],
)
def test_instructions_for_bfloat16_are_told(
    isa: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "amx_refusal", lambda: None)
    monkeypatch.setattr(compiler, "target_sums_pairs_faster", lambda: True)
    findings = {f.subject: f for f in machine.machine_findings(_topology(isa), (0,))}
    assert told in findings["bfloat16"].text


def test_tiles_that_the_kernel_refuses_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "amx_refusal", lambda: "arch_prctl says no")
    monkeypatch.setattr(compiler, "target_sums_pairs_faster", lambda: False)
    isa = "avx512_bf16", "amx_bf16"
    findings = {f.subject: f for f in machine.machine_findings(_topology(isa), (0,))}
    assert findings["bfloat16"].level == "warn"
    assert findings["bfloat16"].text == (
        "avx512_bf16: slower than float32, which 'auto' is without AMX; "
        "amx_bf16 is refused: arch_prctl says no"
    )
    assert "hypervisor" in findings["bfloat16"].way_out


def test_roomy_shared_memory_is_ok_and_a_small_one_names_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "SMALL_SHARED_MEMORY_BYTES", 0)
    assert machine.shared_memory_finding(tmp_path).level == "ok"
    monkeypatch.setattr(machine, "SMALL_SHARED_MEMORY_BYTES", 2**80)
    finding = machine.shared_memory_finding(tmp_path)
    assert finding.level == "warn"
    assert finding.text.startswith("only ")
    assert f"remount,size=2G {tmp_path}" in finding.way_out
    assert 'exchange.segment = "memfd"' in finding.way_out


def test_missing_shared_memory_is_a_warning(tmp_path: Path) -> None:
    finding = machine.shared_memory_finding(tmp_path / "shm")
    assert (finding.level, finding.text) == ("warn", "not usable: No such file or directory")


@pytest.mark.parametrize(
    ("setting", "level"),
    [
        ("[always] madvise never", "ok"),
        ("always [madvise] never", "ok"),
        ("always madvise [never]", "warn"),
        (None, "ok"),
    ],
)
def test_huge_pages_that_are_off_are_a_warning(
    tmp_path: Path, setting: str | None, level: str
) -> None:
    file = tmp_path / "enabled"
    if setting:
        file.write_text(f"{setting}\n", encoding="utf-8")
    finding = machine.huge_pages_finding(file)
    assert finding.level == level
    assert (setting or "does not show") in finding.text


def test_openmp_placement_in_the_environment_is_a_warning() -> None:
    assert machine.thread_placement_finding({}).level == "ok"
    finding = machine.thread_placement_finding({"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"})
    assert finding.level == "warn"
    assert finding.text.startswith("OMP_PROC_BIND=true, OMP_PLACES=cores: ")
    assert finding.way_out == "unset OMP_PROC_BIND OMP_PLACES"


@pytest.mark.parametrize(
    ("quota", "level", "most"),
    [(2.5, "warn", "2 at most"), (0.5, "warn", "1 at"), (4.0, "ok", "4")],
)
def test_time_on_cpus_that_a_control_group_limits_is_told(
    quota: float, level: str, most: str
) -> None:
    (finding,) = machine.quota_findings(AllowedResources(cpus=(0, 1, 2, 3), cpu_quota=quota))
    assert (finding.subject, finding.level) == ("time on cpus", level)
    assert f"time of {quota:g} cpus" in finding.text
    assert most in finding.text
    assert not list(machine.quota_findings(AllowedResources(cpus=(0, 1))))
