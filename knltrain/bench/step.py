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
from knltrain.network.network import Network

PEERS = ("torch",)
ROUND_SECONDS = 1.0
SEED = 1


def run_step_benchmark(
    network: str, batch: int, peers: tuple[str, ...], threads: int | None, rounds: int
) -> dict[str, Any]:
    """Measure `cpu` and `peers` in `rounds` alternating rounds; medians over the rounds.

    `threads` defaults to one per physical core allowed. The report holds machine, sgemm_gflops and
    copy_gbytes_per_second (the best of all rounds) and a row per implementation:
    images_per_second, share_of_sgemm_peak (training flops of direct convolution / time / sgemm).
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
    report: dict[str, Any] = {
        "machine": _machine(cpus),
        "network": network,
        "batch": batch,
        "threads": len(cpus),
        "rounds": rounds,
        "training_flops_per_image": described.training_flops_per_image,
        **bounds,
    }
    report["rows"] = [
        _row(described, process, rates[process.name], rates, bounds["sgemm_gflops"])
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
) -> tuple[dict[str, float], dict[str, list[float]]]:
    rates: dict[str, list[float]] = {process.name: [] for process in contestants}
    measured: list[dict[str, float]] = []
    for _ in range(rounds):
        for process in contestants:
            answer = process.measure(ROUND_SECONDS)
            rates[process.name].append(answer["steps"] * batch / answer["seconds"])
        measured.append(machine.measure(ROUND_SECONDS))
    bounds = {key: max(found[key] for found in measured) for key in measured[0]}
    return bounds, rates


def _row(
    network: Network,
    process: PeerProcess,
    rates: list[float],
    all_rates: dict[str, list[float]],
    sgemm_gflops: float,
) -> dict[str, Any]:
    rate = statistics.median(rates)
    others = {name: found for name, found in all_rates.items() if name != process.name}
    return {
        "implementation": process.name,
        "version": process.ready["version"],
        "images_per_second": rate,
        "share_of_sgemm_peak": rate * network.training_flops_per_image / (sgemm_gflops * 1e9),
        "faster_than": {name: rate / statistics.median(found) for name, found in others.items()},
        "first_loss": process.ready["loss"],
        "rounds": rates,
    }


def _machine(cpus: list[int]) -> dict[str, Any]:
    topology = read_topology()
    return {"model": topology.model, "isa": list(topology.isa), "cpus": cpus}
