from __future__ import annotations

from dataclasses import replace

import pytest

from affinity import TopologyError
from affinity.cli.checking import second
from affinity.cli.checking.second import second_opinion_findings
from affinity.topology import Topology


def _says(monkeypatch: pytest.MonkeyPatch, theirs: Topology | None) -> None:
    monkeypatch.setattr(second, "lstopo_topology", lambda: theirs)


def test_agreement_is_told_with_the_version(
    xeon_max: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    _says(monkeypatch, replace(xeon_max, sources=("hwloc 2.12",)))
    (found,) = second_opinion_findings(xeon_max)
    assert found.level == "ok"
    assert found.text.endswith("(hwloc 2.12)")


def test_each_difference_is_told_from_both_sides(
    xeon_max: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    _says(monkeypatch, replace(xeon_max, cores=xeon_max.cores[:-1]))
    found = list(second_opinion_findings(xeon_max))
    assert {finding.level for finding in found} == {"warn"}
    assert found[0].text == "cpus: we say 0-207, hwloc says 0-102,104-206"
    assert "snapshot machine.tgz" in found[0].way_out


def test_machine_without_hwloc_has_no_second_opinion(
    xeon_max: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    _says(monkeypatch, None)
    (found,) = second_opinion_findings(xeon_max)
    assert (found.level, found.text) == ("note", "lstopo is not installed: no second opinion")


def test_hwloc_that_fails_is_no_failure_of_ours(
    xeon_max: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Topology:
        raise TopologyError("lstopo failed with exit status 1: boom")

    monkeypatch.setattr(second, "lstopo_topology", fails)
    (found,) = second_opinion_findings(xeon_max)
    assert (found.level, found.text) == ("note", "lstopo failed with exit status 1: boom")
