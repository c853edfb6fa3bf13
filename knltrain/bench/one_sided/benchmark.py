"""`knltrain bench one-sided`: two ranks under mpiexec on this machine, one of which computes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from affinity import allowed_cpus, pinned_command, read_topology
from affinity.cli.layout import columns
from knltrain.bench.mpiexec import mpiexec
from knltrain.bench.step.peer_process import PeerError

LIMIT_SECONDS = 600.0
TRANSPORTS: dict[str, dict[str, str]] = {
    "shm": {},
    "tcp": {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"},
}
"""The variable that selects Intel MPI's transport between processes of one computer."""

ACCESSES = {"read": 2, "write": 2, "accumulate": 3}
"""How often each element is read or written in memory at least; by a copy twice, too."""


def run_one_sided_benchmark(size: int, rounds: int, owner: str, transport: str) -> dict[str, Any]:
    """Measure vectors of ``size`` bytes, as `member` does; returns its report, and the machine.

    ``share_of_copy`` is the bandwidth of each operation, for the bytes that must move through
    memory (`ACCESSES`), divided by that of the copy in the same round: medians over the rounds.
    Raises PeerError where MPI is missing, or a rank fails.
    """
    options = ["--bytes", str(size), "--rounds", str(rounds), "--owner", owner]
    report = answer_of_ranks(2, "member", options, transport)
    seconds = report["seconds"]
    shares = {
        name: statistics.median(
            accesses / 2 * copied / taken
            for copied, taken in zip(seconds["copy"], seconds[name], strict=True)
        )
        for name, accesses in ACCESSES.items()
    }
    machine = this_machine()
    return {**report, "transport": transport, "machine": machine, "share_of_copy": shares}


def format_table(report: dict[str, Any]) -> str:
    """Return a line for each operation."""
    rates, shares = report["bytes_per_second"], report["share_of_copy"]
    doing = {"sleep": "sleeps"}.get(report["owner"], f"computes ({report['owner']})")
    rows = [
        (name, f"{rate / 1e9:.2f}", f"{shares[name]:.2f}" if name in shares else "")
        for name, rate in rates.items()
    ]
    lines = [
        ground_of(report),
        f"vectors of {report['bytes'] / 1e6:g} MB, at an owner that {doing}; medians of "
        f"{len(report['seconds']['copy'])} rounds",
        "GB/s of the vectors; 'of copy' is for the bytes that must move",
        *columns([("", "GB/s", "of copy"), *rows], right=(1, 2)),
    ]
    return "\n".join(lines)


def this_machine() -> dict[str, Any]:
    """Model and number of cpus."""
    return {"model": read_topology().model, "cpus": len(allowed_cpus())}


def ground_of(report: dict[str, Any]) -> str:
    """Library, transport and machine, in a line."""
    machine = report["machine"]
    return (
        f"{report['library']}, {report['transport']}, {machine['cpus']} cpus of {machine['model']}"
    )


def answer_of_ranks(
    ranks: int, member: str, options: Sequence[str], transport: str
) -> dict[str, Any]:
    """Start so many ranks of a module of this package on this machine; return what they tell."""
    program = [sys.executable, "-m", "mpi4py", "-m", f"{__package__}.{member}"]
    environment = {"I_MPI_PIN": "0", **TRANSPORTS[transport]}
    command = [mpiexec(), "-n", str(ranks), *program, *options]
    return answer(pinned_command(command, sorted(allowed_cpus()), environment, os.getpid()))


def answer(command: list[str]) -> dict[str, Any]:
    """Return the last line of JSON that ranks print; PeerError if they fail, or hang."""
    try:
        found = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise PeerError(
            f"MPI's ranks have not ended after {LIMIT_SECONDS:g} s: take fewer rounds, or smaller "
            "vectors"
        ) from None
    lines = [line for line in found.stdout.splitlines() if line.startswith("{")]
    if found.returncode or not lines:
        said = (found.stdout + found.stderr).strip()[-2000:]
        raise PeerError(f"MPI's ranks ended with exit code {found.returncode}: {said}")
    report: dict[str, Any] = json.loads(lines[-1])
    return report
