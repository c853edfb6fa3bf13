"""`knltrain bench step`: images per second of one training step, ours beside others.

A step is loss, gradient and the update by SGD with momentum. All contestants start from the same
parameters and see the same batch, and the loss of the first step is reported as proof. Several
workers step at the same time, each on the whole batch and its own cores, and exchange nothing.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from affinity import Allowed, Request, allowed_cpus, physical_cores, place_workers, read_topology
from knltrain.bench import torch_peer
from knltrain.bench.contestant import Contestant
from knltrain.bench.job import write_job
from knltrain.bench.peer_process import PeerProcess
from knltrain.build import network_named
from knltrain.errors import ConfigError, unknown_name

PEERS = ("torch", "unpinned")
"""`torch`: eager PyTorch in our places. `unpinned`: ours, its threads free on all allowed cpus."""

ROUND_SECONDS = 1.0
SEED = 1


def run_step_benchmark(
    network: str,
    batch: int,
    peers: tuple[str, ...],
    threads: int | None,
    rounds: int,
    workers: int = 1,
) -> dict[str, Any]:
    """Measure `cpu` and `peers` in `rounds` alternating rounds; medians over the rounds.

    `threads` are those of all `workers` together, by default one per physical core allowed. The
    report holds machine, sgemm_gflops and copy_gbytes_per_second, and a row per implementation:
    images_per_second of all workers together, share_of_sgemm_peak (training flops of direct
    convolution / time / sgemm) and faster_than (ratio to each other one). Shares and ratios are
    taken within each round, whose parts see the machine at the same clock and load, and are
    medians of these: not quite the quotients of the medians shown.
    """
    for peer in peers:
        if peer not in PEERS:
            raise ConfigError(unknown_name("peer", peer, PEERS))
    described = network_named(network)
    groups = _groups(threads, workers)
    cpus = [cpu for group in groups for cpu in group]
    with ExitStack() as stack:
        job = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="knltrain-bench-")))
        write_job(job, described, batch, SEED)
        contestants = [
            Contestant(name, [stack.enter_context(process) for process in processes])
            for name, processes in _processes(("cpu", *peers), job, groups)
        ]
        machine = stack.enter_context(
            PeerProcess("machine", ["-m", "knltrain.bench.machine_peer", str(len(cpus))], cpus)
        )
        machine.wait_ready()
        for contestant in contestants:
            contestant.wait_ready()
        bounds, rates = _rounds(contestants, machine, batch, rounds)
    flops = described.training_flops_per_image
    report: dict[str, Any] = {
        "machine": _machine(cpus),
        "network": network,
        "batch": batch,
        "workers": workers,
        "threads": len(cpus),
        "rounds": rounds,
        "training_flops_per_image": flops,
        **{key: statistics.median(measured) for key, measured in bounds.items()},
    }
    report["rows"] = [
        _row(contestant.name, contestant.ready, rates, flops, bounds["sgemm_gflops"])
        for contestant in contestants
    ]
    return report


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text for people."""
    lines = [
        f"{report['network']}, batch {report['batch']}, {_crew(report)} on "
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


def _crew(report: dict[str, Any]) -> str:
    each = f"{report['threads']} threads"
    return each if report["workers"] == 1 else f"{report['workers']} workers with {each} in all"


def _groups(threads: int | None, workers: int) -> list[list[int]]:
    """Return the cpus of each worker, one per core."""
    topology, allowed = read_topology(), allowed_cpus()
    cores = len(physical_cores(topology, allowed))
    if threads is not None and threads > cores:
        raise ConfigError(
            f"--threads {threads}: the allowed cpus hold {cores} physical cores, ask for so "
            "many or fewer"
        )
    if (threads or cores) < workers or (threads or workers) % workers:
        raise ConfigError(
            f"--workers {workers}: expected a divisor of the {threads or cores} threads"
        )
    each = None if threads is None else threads // workers
    plan = place_workers(topology, Allowed(allowed), Request(workers, each, policy="none"))
    return [[core[0] for core in placement.cores] for placement in plan.workers]


def _processes(
    names: tuple[str, ...], job: Path, groups: list[list[int]]
) -> Iterator[tuple[str, Iterator[PeerProcess]]]:
    """Yield every contestant's name and its processes, which start as they are asked for."""
    ours = ["-m", "knltrain.bench.cpu_peer", str(job)]
    arguments = {"cpu": ours, "unpinned": ours, "torch": [str(Path(torch_peer.__file__)), str(job)]}

    def started(name: str) -> Iterator[PeerProcess]:
        for group in groups:
            free = (allowed_cpus(), len(group)) if name == "unpinned" else (group,)
            yield PeerProcess(name, [*arguments[name], str(len(group))], *free)

    for name in names:
        yield name, started(name)


def _rounds(
    contestants: list[Contestant], machine: PeerProcess, batch: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the machine's bounds and the contestants' images per second, round by round."""
    rates: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    bounds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for contestant in contestants:
            rates[contestant.name].append(contestant.steps_per_second(ROUND_SECONDS) * batch)
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
