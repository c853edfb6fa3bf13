"""Checks that a process is where its placement wants it."""

from __future__ import annotations

from collections.abc import Iterator

from affinity.cli.checking.finding import Finding
from affinity.numbers import format_bytes
from affinity.placement.plan import Placement
from affinity.placement.wording import counted
from affinity.process.other_process import observe, placement_of
from affinity.process.verification import ObservedBinding, judge, remarks


def process_findings(pid: int) -> Iterator[Finding]:
    """Where the threads and pages of a process are, compared with its placement if it has one.

    Raises AffinityError if the process may not be inspected.
    """
    observed, placement = observe(pid), placement_of(pid)
    yield from seen_findings(observed)
    if placement is None:
        text = "none: it was not started by run, or its environment may not be read"
        yield Finding("note", "placement", text)
    else:
        yield from judged_findings(placement, observed)


def seen_findings(observed: ObservedBinding) -> Iterator[Finding]:
    """The observed binding, without judgement."""
    threads = counted(len(observed["threads"]), "thread")
    yield Finding("ok", "threads", f"{threads} on cpus {observed['cpus']}")
    yield Finding("ok", "memory policy", observed["memory_policy"] or "not told by the kernel")
    memory = observed["memory"]
    if memory is None:
        yield Finding("note", "memory", "the kernel does not tell where the pages are")
        return
    told = (
        ("own", memory["anonymous"]),
        ("shared", memory["shared"]),
        ("of files", memory["file"]),
    )
    for name, sizes in told:
        parts = [f"{format_bytes(size)} on node {node}" for node, size in sizes.items()]
        yield Finding("ok", f"memory {name}", ", ".join(parts) or "none")


def judged_findings(placement: Placement, observed: ObservedBinding) -> Iterator[Finding]:
    """Deviations from the placement, and notes for the owner."""
    problems = judge(placement, observed)
    for problem in problems:
        yield Finding("fail", "placement", problem)
    for remark in remarks(placement, observed):
        yield Finding("note", "placement", remark)
    if not problems:
        text = f"as worker {placement.rank} wants it (policy {placement.memory.policy})"
        yield Finding("ok", "placement", text)
