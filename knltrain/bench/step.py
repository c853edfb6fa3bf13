"""`knltrain bench step`: images per second of one training step, ours beside others.

A step is loss, gradient and the update by SGD with momentum. All contestants start from the same
parameters and see the same batch, and the loss of the first step is reported as proof.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.bench import torch_peer
from knltrain.bench.job import write_job
from knltrain.bench.peer_process import PeerProcess
from knltrain.build import network_named
from knltrain.errors import ConfigError, unknown_name

PEERS = ("torch",)
ROUND_SECONDS = 1.0
SEED = 1


def run_step_benchmark(
    network: str, batch: int, peers: tuple[str, ...], threads: int | None, rounds: int
) -> dict[str, Any]:
    """Measure `cpu` and `peers` in `rounds` alternating rounds; medians over the rounds.

    `threads` defaults to one per physical core allowed. The report holds machine, sgemm_gflops and
    copy_gbytes_per_second, and a row per implementation: images_per_second, share_of_sgemm_peak
    (training flops of direct convolution / time / sgemm) and faster_than (ratio to each other
    one). Shares and ratios are taken within each round, whose parts see the machine at the same
    clock and load, and are medians of these: not quite the quotients of the medians shown.
    """
    for peer in peers:
        if peer not in PEERS:
            raise ConfigError(unknown_name("peer", peer, PEERS))
    described = network_named(network)
    cpus = _cpus(threads)
    with ExitStack() as stack:
        job = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="knltrain-bench-")))
        write_job(job, described, batch, SEED)
        contestants = [stack.enter_context(process) for process in _contestants(peers, job, cpus)]
        machine = stack.enter_context(
            PeerProcess("machine", ["-m", "knltrain.bench.machine_peer", str(len(cpus))], cpus)
        )
        for process in (*contestants, machine):
            process.wait_ready()
        bounds, rates = _rounds(contestants, machine, batch, rounds)
    flops = described.training_flops_per_image
    report: dict[str, Any] = {
        "machine": _machine(cpus),
        "network": network,
        "batch": batch,
        "threads": len(cpus),
        "rounds": rounds,
        "training_flops_per_image": flops,
        **{key: statistics.median(measured) for key, measured in bounds.items()},
    }
    report["rows"] = [
        _row(process.name, process.ready, rates, flops, bounds["sgemm_gflops"])
        for process in contestants
    ]
    return report


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text for people."""
    lines = [
        f"{report['network']}, batch {report['batch']}, {report['threads']} threads on "
        f"{report['machine']['model']}, medians of {report['rounds']} alternating rounds",
        f"sgemm {report['sgemm_gflops']:.0f} GFLOP/s, "
        f"copy {report['copy_gbytes_per_second']:.1f} GB/s (read and written)",
        "",
        f"{'implementation':<16}{'images/s':>12}{'of sgemm':>10}{'faster':>10}{'loss':>12}",
    ]
    for row in report["rows"]:
        faster = row["faster_than"]
        ratio = f"{min(faster.values()):.2f}x" if faster else "-"
        lines.append(
            f"{row['implementation']:<16}{row['images_per_second']:>12,.0f}"
            f"{row['share_of_sgemm_peak']:>10.2f}{ratio:>10}{row['first_loss']:>12.6f}"
        )
    return "\n".join(lines)


def _cpus(threads: int | None) -> list[int]:
    cores = physical_cores(read_topology(), allowed_cpus())
    if threads is not None and threads > len(cores):
        raise ConfigError(
            f"--threads {threads}: the allowed cpus hold {len(cores)} physical cores, ask for so "
            "many or fewer"
        )
    return [core.cpus[0] for core in cores[:threads]]


def _contestants(peers: tuple[str, ...], job: Path, cpus: list[int]) -> list[PeerProcess]:
    arguments = {
        "cpu": ["-m", "knltrain.bench.cpu_peer"],
        "torch": [str(Path(torch_peer.__file__))],
    }
    return [
        PeerProcess(name, [*arguments[name], str(job), str(len(cpus))], cpus)
        for name in ("cpu", *peers)
    ]


def _rounds(
    contestants: list[PeerProcess], machine: PeerProcess, batch: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the machine's bounds and the contestants' images per second, round by round."""
    rates: dict[str, list[float]] = {process.name: [] for process in contestants}
    bounds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for process in contestants:
            answer = process.measure(ROUND_SECONDS)
            rates[process.name].append(answer["steps"] * batch / answer["seconds"])
        for key, value in machine.measure(ROUND_SECONDS).items():
            bounds.setdefault(key, []).append(value)
    return bounds, rates


def _row(
    name: str,
    ready: dict[str, Any],
    rates: dict[str, list[float]],
    flops: int,
    sgemm_gflops: list[float],
) -> dict[str, Any]:
    """Return a contestant's row; `rates` of all and `sgemm_gflops` are round by round."""
    own, others = rates[name], {other: found for other, found in rates.items() if other != name}
    return {
        "implementation": name,
        "version": ready["version"],
        "images_per_second": statistics.median(own),
        "share_of_sgemm_peak": _median_ratio(own, sgemm_gflops) * flops / 1e9,
        "faster_than": {other: _median_ratio(own, found) for other, found in others.items()},
        "first_loss": ready["loss"],
        "rounds": own,
    }


def _median_ratio(values: list[float], others: list[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, others, strict=True))


def _machine(cpus: list[int]) -> dict[str, Any]:
    topology = read_topology()
    return {"model": topology.model, "isa": list(topology.isa), "cpus": cpus}
