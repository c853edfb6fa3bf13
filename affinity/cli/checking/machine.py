"""All checks of a machine, and of the permissions of this process on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from affinity.cli.checking.finding import Finding
from affinity.cli.checking.policies import policy_findings
from affinity.cli.checking.process import judged_findings
from affinity.cli.checking.second import second_opinion_findings
from affinity.cli.checking.settings import setting_findings
from affinity.cli.checking.surroundings import (
    constraint_findings,
    limit_findings,
    variable_findings,
)
from affinity.cli.phrases import machine_name, memory_names
from affinity.machine.files import FolderFiles
from affinity.machine.sysfs_devices import DEMOTION
from affinity.placement.wording import counted
from affinity.process.allowed import AllowedResources
from affinity.process.own import own_placement
from affinity.process.thread_environment import thread_count_contradictions
from affinity.process.verification import observed_binding
from affinity.topology import Topology


def machine_findings(
    topology: Topology, allowed: AllowedResources, environment: Mapping[str, str] = os.environ
) -> Iterator[Finding]:
    """All findings about this machine, from its parts to the placement of a page."""
    cores = counted(len(topology.cores), "core")
    yield Finding("ok", "machine", f"{machine_name(topology)}, {cores}")
    yield _memories(topology)
    for note in topology.notes:
        if DEMOTION not in note:  # Told with the other settings.
            yield Finding("warn", "machine", note)
    yield from limit_findings(topology, allowed, environment)
    yield from constraint_findings(topology, environment)
    mems = allowed.mems or tuple(node.id for node in topology.numa_nodes if node.memory_bytes)
    yield from policy_findings(topology, mems)
    yield from setting_findings(FolderFiles(Path("/")))
    yield from variable_findings(environment)
    yield from second_opinion_findings(topology)
    if (placement := own_placement(environment)) is not None:
        yield from judged_findings(placement, observed_binding())
        for contradiction in thread_count_contradictions(placement.threads, environment):
            yield Finding("warn", "thread counts", contradiction)


def _memories(topology: Topology) -> Finding:
    nodes = [node.id for node in topology.numa_nodes]
    names = ", ".join(memory_names(topology, nodes))
    modes = topology.modes
    setup = f"; set up as {modes.cluster}, {modes.memory}" if modes else ""
    return Finding("ok", "memories", f"{names}{setup}")
