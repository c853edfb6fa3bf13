"""The whole diagnosis: gathered, as text, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator

from affinity import (
    AffinityError,
    Topology,
    allowed_cpus,
    placement_environment,
    read_allowed,
    read_topology,
)
from knltrain.doctor.exchange_trial import SelfTestResult, self_test
from knltrain.doctor.finding import Finding, Level, worst_level
from knltrain.doctor.machine import (
    huge_pages_finding,
    machine_findings,
    quota_findings,
    shared_memory_finding,
    thread_placement_finding,
)
from knltrain.doctor.software import (
    kernel_cache_finding,
    kernel_packages_finding,
    software_findings,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """The machine, and whether runs will work on it.

    `level` is the worst of all `findings`; `topology` is None where it cannot be read.
    """

    level: Level
    findings: tuple[Finding, ...]
    allowed_cpus: tuple[int, ...]
    topology: Topology | None
    self_test: SelfTestResult


def diagnose() -> Diagnosis:
    """Examine machine and software, then let two workers exchange; takes seconds."""
    allowed = allowed_cpus()
    findings: list[Finding] = []
    topology: Topology | None = None
    try:
        topology = read_topology()
        findings.extend(machine_findings(topology, allowed))
        findings.extend(quota_findings(read_allowed()))
    except AffinityError as error:
        findings.append(Finding("topology", "fail", str(error), "show /sys and /proc to it"))
    tested = self_test()
    findings.extend(_setting_findings())
    findings.extend(software_findings())
    findings += [kernel_cache_finding(), kernel_packages_finding()]
    findings.append(self_test_finding(tested))
    return Diagnosis(worst_level(findings), tuple(findings), allowed, topology, tested)


def self_test_finding(tested: SelfTestResult) -> Finding:
    """The self-test as one finding among the others."""
    if tested.ok:
        workers = "one worker" if tested.workers == 1 else f"{tested.workers} pinned workers"
        text = f"{workers} exchanged in {tested.seconds:.1f} s"
        if not tested.no_room:
            return Finding("self-test", "ok", text)
        text = f"{text}, but through a memfd only: {tested.no_room}"
        return Finding("self-test", "warn", text, 'set exchange.segment = "memfd" for runs here')
    way_out = "runs of several workers will fail like this: mend it first, or use --workers 1"
    return Finding("self-test", "fail", tested.reason, way_out)


def format_text(diagnosis: Diagnosis) -> str:
    """One line for each finding, with its remedy below, and a verdict at the end."""
    width = max(len(finding.subject) for finding in diagnosis.findings)
    lines: list[str] = []
    for finding in diagnosis.findings:
        lines.append(f"{finding.level:<4}  {finding.subject:<{width}}  {finding.text}")
        if finding.way_out:
            lines.append(f"{'':<{width + 6}}  -> {finding.way_out}")
    counts = Counter(finding.level for finding in diagnosis.findings)
    verdict = "this machine is not ready" if counts["fail"] else "this machine is ready"
    return "\n".join([*lines, "", f"{verdict}: {counts['fail']} failed, {counts['warn']} warned"])


def to_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as a JSON object with the fields of `Diagnosis`, indented."""
    return json.dumps(dataclasses.asdict(diagnosis), indent=2)


def _setting_findings() -> Iterator[Finding]:
    yield shared_memory_finding()
    yield huge_pages_finding()
    yield thread_placement_finding(placement_environment())
