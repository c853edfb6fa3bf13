"""Topologies, plans and findings as JSON, for scripts: names and units are those of the classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from affinity.cli.checking.finding import Finding
from affinity.cli.checking.recorded import MachineCheck
from affinity.placement.plan import Plan
from affinity.process.allowed import AllowedResources
from affinity.topology import Core, Topology


def machine_json(topology: Topology, allowed: AllowedResources) -> str:
    """A `Topology`, its tiles and L3 groups as lists of cpus, and the part that is `allowed`."""
    facts = {
        **asdict(topology),
        "tiles": _cpus(topology.tiles),
        "l3_groups": _cpus(topology.l3_groups),
        "allowed": asdict(allowed),
    }
    return json.dumps(facts, indent=1)


def plan_json(plan: Plan) -> str:
    """The fields of a `Plan`."""
    return json.dumps(asdict(plan), indent=1)


def findings_json(findings: Sequence[Finding]) -> str:
    """A list of findings, each with its level, subject, text and remedy."""
    return json.dumps([asdict(finding) for finding in findings], indent=1)


def recorded_json(machines: Sequence[MachineCheck]) -> str:
    """A list of recorded machines, each with its name, verdict and findings."""
    return json.dumps([asdict(machine) for machine in machines], indent=1)


def _cpus(groups: Sequence[Sequence[Core]]) -> list[list[int]]:
    return [sorted(cpu for core in group for cpu in core.cpus) for group in groups]
