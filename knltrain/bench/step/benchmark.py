"""`knltrain bench step`: one training step, knltrain's beside those of other engines.

A step is loss, gradient and the update by SGD with momentum. All contestants start from the same
parameters and see the same batch; the loss of the first step is reported as evidence. Several
workers step at the same time, each on the whole batch and its own cores, and exchange nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.bench.exchange.cores import groups_of
from knltrain.bench.step.contestant import Contestant
from knltrain.bench.step.job import write_job
from knltrain.bench.step.peer_process import PeerError, PeerProcess
from knltrain.bench.step.peers import Start, device_starts, starts
from knltrain.bench.step.report import Measurement, best_peer, rows
from knltrain.errors import ConfigError
from knltrain.launch.signals import signals_raise
from knltrain.launch.temporary_folder import temporary_folder
from knltrain.network.layers import Dropout, Layer
from knltrain.network.zoo.networks import network_named

BATCH = 32
BATCHES = {"lenet": 64, "cifar-quick": 100}
"""Images per step of networks whose authors took another number than BATCH."""

ROUND_SECONDS = 1.0
"""A contestant's part of a round lasts so long, and then to the end of its step."""

SEED = 1
LOSS_TOLERANCE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 3e-2}
"""Relative difference by precision; that of float32 sums in another order is far smaller."""


def run_step_benchmark(
    network: str,
    batch: int | None,
    peers: tuple[str, ...],
    threads: int | None,
    rounds: int,
    workers: int = 1,
    ipex_python: Path | None = None,
    device: str = "cpu",
    precision: str = "float32",
    evaluates: bool = False,
) -> dict[str, Any]:
    """Measure ours and `peers` in `rounds` alternating rounds; medians over the rounds.

    A step is one of training, or the evaluation of a batch. Ours is the cpu backend, or the torch
    backend on a `device`, in that `precision`.

    `threads` are those of all `workers` together, by default one per physical core allowed. All
    contestants hold their memory until the last round is over. The report has

    - the machine, its sgemm_gflops and copy_gbytes_per_second, or those of the device in that
      precision; in bfloat16 on the host also bfloat16_gemm_gflops and bfloat16_convolution_gflops,
      see `machine_peer`;
    - the `rows` and the `best_peer` of `step_report`;
    - losses_agree: True, or None where dropout draws differently in each.

    Raises PeerError when a contestant cannot run, or when its first loss differs from ours without
    dropout, and RunAborted when a signal asks for the end; nothing is left behind then.
    """
    described = network_named(network)
    on_device: dict[str, object] = {}
    if device == "cpu":
        _check_for_host(precision)
        started = starts(peers, ipex_python, precision)
    else:
        on_device = _device(device, workers)
        started = device_starts(peers, str(on_device["device"]), precision)
    batch = batch or BATCHES.get(network, BATCH)
    groups = _groups(threads, workers)
    cpus = [cpu for group in groups for cpu in group]
    with signals_raise(), ExitStack() as stack:
        with temporary_folder() as job:
            write_job(job.path, described, batch, SEED, evaluates)
            contestants = _warm_contestants(stack, started, job.path, groups)
        losses = {contestant.name: contestant.ready["loss"] for contestant in contestants}
        draws = not evaluates and any(_drops(layer) for layer in described.layers)
        agree = None if draws else _losses_agree(losses, LOSS_TOLERANCE[precision])
        command = ["-m", "knltrain.bench.step.machine_peer", str(len(cpus)), precision]
        if on_device:
            command.append(str(on_device["device"]))
        machine = stack.enter_context(PeerProcess("machine", command, cpus))
        machine.wait_ready()
        measured = _measured(contestants, machine, batch, rounds)
    flops = described.flops_per_image if evaluates else described.training_flops_per_image
    return {
        "machine": _machine(cpus),
        "network": network,
        "batch": batch,
        "device": on_device,
        "precision": precision,
        "workers": workers,
        "threads": len(cpus),
        "rounds": rounds,
        "evaluates": evaluates,
        "flops_per_image": flops,
        "losses_agree": agree,
        **{key: statistics.median(values) for key, values in measured.bounds.items()},
        "rows": rows(measured, flops),
        "best_peer": best_peer(measured),
    }


def _check_for_host(precision: str) -> None:
    if precision == "tf32":
        raise ConfigError(
            "--precision tf32 is of NVIDIA GPUs: expected float32 or bfloat16, or a --device, such "
            "as cuda"
        )
    if precision == "bfloat16":
        from vectorized_ops.numba.emit.bfloat16 import IS_NATIVE

        if not IS_NATIVE:
            raise ConfigError(
                "--precision bfloat16: this processor has no AVX512_BF16, without which the cpu "
                "backend is slower than in float32; leave it out, or name a --device, such as cuda"
            )


def _device(device: str, workers: int) -> dict[str, object]:
    """The device's name, model and memory; ConfigError where it is not there."""
    from knltrain.backends.torch.devices import described, device_named

    if workers > 1:
        raise ConfigError(f"--workers {workers} with --device {device}: expected one worker")
    found = device_named(device, key="--device")
    if found.type == "cpu":
        raise ConfigError(f"--device {device}: PyTorch finds no accelerator; leave it out")
    return described(found)


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
    return groups_of(topology, allowed, workers, each)


def _warm_contestants(
    stack: ExitStack, started: Mapping[str, Start], job: Path, groups: Sequence[Sequence[int]]
) -> list[Contestant]:
    """Start one contestant after the other, so that none warms up on cores that another uses.

    Ours come last: peers that cannot run fail before kernels are compiled.
    """
    warm = {}
    ours, *peers = started
    for name in (*peers, ours):
        processes = [stack.enter_context(started[name].process(name, job, cpus)) for cpus in groups]
        warm[name] = Contestant(name, processes)
        warm[name].wait_ready()
    return [warm[name] for name in started]


def _drops(layer: Layer) -> bool:
    """Tell whether a layer draws anew in each contestant."""
    return isinstance(layer, Dropout) and bool(layer.rate)


def _losses_agree(losses: Mapping[str, float], tolerance: float) -> bool:
    """True; PeerError where first losses differ."""
    ours = next(iter(losses.values()))
    for name, loss in losses.items():
        if not math.isclose(loss, ours, rel_tol=tolerance):
            raise PeerError(
                f"contestant '{name}' has a first loss of {loss}, but ours is {ours}: "
                "they do not compute the same, so their speeds cannot be compared"
            )
    return True


def _measured(
    contestants: Sequence[Contestant], machine: PeerProcess, batch: int, rounds: int
) -> Measurement:
    """Let contestants and machine take turns; return the results of each round."""
    rates: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    bounds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for contestant in contestants:
            rates[contestant.name].append(contestant.steps_per_second(ROUND_SECONDS) * batch)
        for key, value in machine.measure(ROUND_SECONDS).items():
            bounds.setdefault(key, []).append(value)
    ready = {contestant.name: contestant.ready for contestant in contestants}
    peaks = {contestant.name: contestant.peak_bytes for contestant in contestants}
    return Measurement(ready, rates, peaks, bounds)


def _machine(cpus: list[int]) -> dict[str, Any]:
    topology = read_topology()
    return {"model": topology.model, "isa": list(topology.isa), "cpus": cpus}
