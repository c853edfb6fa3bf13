"""`knltrain bench layers`: the time of each layer when its gradient is summed over all ranks.

After the benchmark of H. Kim's thesis (Seoul National University, 2020): per layer, direction and
rank, the seconds of its kernels, of its sum and of waiting, beside its intensities and bounds.
"""

from __future__ import annotations

import json
import secrets
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from affinity import read_topology
from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.layers.member import Task
from knltrain.bench.step.peer_process import PeerProcess
from knltrain.distributed_ops import Row, printed
from knltrain.errors import ConfigError, unknown_name
from knltrain.launch.signals import signals_raise
from knltrain.network.zoo.networks import network_named
from vectorized_ops.implementations import IMPLEMENTATIONS


def run_layers_benchmark(
    network: str, workers: int, batch: int, chunks: int, steps: int, implementation: str
) -> dict[str, Any]:
    """Compute `steps` of all layers with parameters in `workers` processes on cores of their own.

    The report has the machine and, for each rank, the bounds of its own cores while all were
    measured (`machine`: matrix product and copy), and its `rows`, the fields of `Row`, means over
    the steps. Raises ConfigError for impossible settings, PeerError when a rank fails.
    """
    network_named(network)
    if implementation not in IMPLEMENTATIONS:
        raise ConfigError(unknown_name("--implementation", implementation, IMPLEMENTATIONS))
    groups, address = cores_of(workers), f"bench-layers-{secrets.token_hex(6)}"
    with signals_raise(), ExitStack() as stack:
        ranks = []
        for rank, cpus in enumerate(groups):
            task = Task(network, batch, chunks, implementation, rank, workers, address, len(cpus))
            command = ["-m", "knltrain.bench.layers.member", json.dumps(asdict(task))]
            ranks.append(stack.enter_context(PeerProcess(f"rank {rank}", command, cpus)))
        for process in ranks:
            process.wait_ready()
        for process in ranks:
            process.ask(steps)
        answers = [process.answer() for process in ranks]
    return {
        "machine": {"model": read_topology().model},
        "network": network,
        "implementation": implementation,
        "workers": workers,
        "cores_per_worker": len(groups[0]),
        "batch": batch,
        "chunks": chunks,
        "steps": steps,
        "ranks": answers,
    }


def format_table(report: dict[str, Any]) -> str:
    """Return the rows of rank 0 as text, and their totals."""
    first = report["ranks"][0]
    rows = [Row(**row) for row in first["rows"]]
    compute, issued, exposed = (
        1e3 * sum(getattr(row, f"{kind}_seconds") for row in rows)
        for kind in ("compute", "issued", "exposed")
    )
    cores = report["cores_per_worker"]
    return "\n".join(
        [
            f"{report['network']}, batch {report['batch']} per rank, {report['workers']} ranks "
            f"with {cores} core{'s' * (cores > 1)} each on {report['machine']['model']}; rank 0, "
            f"milliseconds, means of {report['steps']} steps",
            f"matrix product {first['machine']['flops_per_second'] / 1e9:.0f} GFLOP/s, copy "
            f"{first['machine']['memory_bytes_per_second'] / 1e9:.1f} GB/s, of one rank while all "
            "compute",
            "",
            printed(rows),
            "",
            f"all layers: computing {compute:.2f} ms, sums under way {issued:.2f} ms (overlapping "
            f"each other), waited for {exposed:.2f} ms",
        ]
    )
