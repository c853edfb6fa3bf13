"""The machine's bounds, while nothing else runs."""

from __future__ import annotations

from collections.abc import Sequence

from knltrain.bench.step.peer_process import PeerProcess

SECONDS = 3.0


def bounds_of(cpus: Sequence[int]) -> dict[str, float]:
    """Measure sgemm_gflops and copy_gbytes_per_second of these cpus, with a thread on each."""
    arguments = ["-m", "knltrain.bench.step.machine_peer", str(len(cpus))]
    with PeerProcess("machine", arguments, cpus) as machine:
        machine.wait_ready()
        bounds: dict[str, float] = machine.measure(SECONDS)
    return bounds
