from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from affinity.topology import read_topology

Machines = Callable[[str], Any]


def _kind(machine: Any, node: int) -> tuple[str, str]:
    found = {node.id: node for node in read_topology(machine.root).numa_nodes}
    return found[node].kind, found[node].evidence


@pytest.fixture
def flat_mode(machine_files: Machines) -> Any:
    """Two sockets, each with a memory of 100 GB/s beside its cpus and another without cpus."""
    machine = machine_files("two_sockets")
    for node in range(2):
        machine.add_node(2 + node, "", 256)
        machine.add_bandwidth(node, "access0", node, 100_000)
    return machine


def test_knights_memory_without_cpus_is_mcdram(machine_files: Machines) -> None:
    machine = machine_files("knights_landing")
    assert _kind(machine, 0)[0] == "dram"
    assert _kind(machine, 4) == ("hbm", "memory without cpus on Knights Landing is MCDRAM")


def _name(machine: Any, name: str, model: str = "143") -> None:
    machine.write(
        "proc/cpuinfo",
        f"processor: 0\nvendor_id: GenuineIntel\ncpu family: 6\nmodel: {model}\nmodel name: {name}",
    )


@pytest.mark.parametrize(
    ("name", "model", "kind"),
    [
        ("Intel(R) Xeon(R) CPU Max 9480", "143", "unknown"),
        ("INTEL(R) XEON(R) CPU MAX 9460", "143", "unknown"),
        ("Intel(R) Xeon(R) Platinum 8480+", "143", "dram"),
        ("Intel(R) Xeon(R) CPU Max 9480", "142", "dram"),
    ],
)
def test_only_memory_of_xeon_max_may_be_hbm_or_dram(
    machine_files: Machines, name: str, model: str, kind: str
) -> None:
    machine = machine_files("two_sockets")
    _name(machine, name, model)
    found, evidence = _kind(machine, 0)
    assert found == kind
    assert ("HBM alone or with HBM as a cache" in evidence) is (kind == "unknown")


def test_memory_next_to_cpus_of_xeon_max_in_flat_mode_is_dram(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    _name(machine, "Intel(R) Xeon(R) CPU Max 9480")
    machine.add_node(2, "", 256)
    assert _kind(machine, 0)[0] == "dram"


def test_model_87_of_another_vendor_is_no_evidence(machine_files: Machines) -> None:
    machine = machine_files("knights_landing")
    cpuinfo = (machine.root / "proc/cpuinfo").read_text(encoding="utf-8")
    machine.write("proc/cpuinfo", cpuinfo.replace("GenuineIntel", "AuthenticAMD"))
    assert _kind(machine, 4)[0] == "unknown"


def test_bandwidth_above_twice_the_local_dram_is_hbm(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(3, "access0", 1, 270_000)
    kind, evidence = _kind(flat_mode, 3)
    assert kind == "hbm"
    assert "2.7 times" in evidence


@pytest.mark.parametrize("bandwidth", [200_000, 30_000])
def test_bandwidth_up_to_twice_the_local_dram_is_unknown(flat_mode: Any, bandwidth: int) -> None:
    flat_mode.add_bandwidth(3, "access0", 1, bandwidth)
    kind, evidence = _kind(flat_mode, 3)
    assert kind == "unknown"
    assert f"{bandwidth / 100_000:.1f} times" in evidence


def test_bandwidth_from_cpus_beats_that_from_devices(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access0", 0, 50_000)
    flat_mode.add_bandwidth(2, "access1", 0, 500_000)
    assert _kind(flat_mode, 2)[0] == "hbm"


def test_zero_bandwidth_means_not_given(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access0", 0, 0)
    assert _kind(flat_mode, 2) == (
        "unknown",
        "away from cpus, and no HMAT bandwidth tells what it is",
    )


def test_fast_memory_next_to_dram_of_unknown_speed_is_unknown(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access0", 0, 900_000)
    flat_mode.write("sys/devices/system/node/node0/access0/initiators/read_bandwidth", "0")
    assert _kind(flat_mode, 2)[0] == "unknown"
